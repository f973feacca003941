"""Times, ages and shares as people write them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import FieldError

_AGE = re.compile(r"(\d{1,6})([mhdw])")
_UNITS_S = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_DURATION_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_time(time_or_age: str | datetime) -> int:
    """Return a time in ns since the epoch. A text is an ISO date or time, or an age such as `30d`.

    Times without a zone are in UTC. Raises InputError for any other text.
    """
    try:
        if isinstance(time_or_age, str) and (age := _AGE.fullmatch(time_or_age)):
            return time.time_ns() - int(age[1]) * _UNITS_S[age[2]] * 10**9
        moment = datetime.fromisoformat(time_or_age) if isinstance(time_or_age, str) else time_or_age
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp()) * 10**9
    except (ValueError, OverflowError):
        raise InputError(
            f"{time_or_age!r} is not a time: write 2026-01-31, 2026-01-31T12:00Z or 30d"
        ) from None


def parsed_time(name: str, time_or_age: str | datetime | None) -> int | None:
    """Return a time of the field `name` as `parse_time` does, None for None. Raises FieldError."""
    try:
        return None if time_or_age is None else parse_time(time_or_age)
    except InputError as error:
        raise FieldError(name, str(error)) from None


def check_age(text: str) -> str:
    """Return an age such as `30d` or `12h`. Raises InputError for any other text."""
    if not _AGE.fullmatch(text):
        raise InputError(f"{text!r} is not an age: write 30d or 12h")
    return text


def share_of(value: object) -> float:
    """Return a share above 0 and up to 1, of a number or a text such as `5%`. Raises ValueError otherwise."""
    try:
        if isinstance(value, str):
            number, percent, rest = value.strip().partition("%")
            share = float(number) / (100 if percent else 1)
        else:
            share, rest = float(value), ""  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"expected a share such as 5% or 0.05, found {value!r}") from None
    if rest or not 0 < share <= 1 or isinstance(value, bool):
        raise ValueError(f"expected a share above 0 and up to 100%, found {value!r}")
    return share


def seconds_of(value: float | str) -> float:
    """Return a duration in seconds, of a number or a text such as `30s`, `5m`, `1h` or `30`.

    Raises ValueError for another value.
    """
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is None:
            raise ValueError(f"expected a duration such as 30s, 5m or 1h, found {value!r}")
        return float(match[1]) * _DURATION_S[match[2]]
    if not value >= 0:
        raise ValueError(f"expected 0 or more seconds, found {value}")
    return float(value)
