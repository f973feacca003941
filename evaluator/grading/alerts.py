"""The alerts of the settings: when a stream of sessions is to be told about."""

from __future__ import annotations

import re
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from spangrade.tracer.base.quantities import seconds_of
from spangrade.tracer.base.settings import SettingsTable

_SILENCE = re.compile(r"silent +for +(\S+)")
_WORSE = re.compile(r"(\S+) +worse")
_LIMIT = re.compile(r"([^\s<>]+) *([<>]) *(\d+(\.\d+)?|\.\d+)")
_EXPECTED = "expected METRIC < NUMBER, METRIC > NUMBER, METRIC worse, or 'silent for 30m'"
_DAYS = {"once a day": 1, "once a week": 7, "once a month": 30, "once a year": 365}

By = Literal["agent", "service", "version", "model", "environment"]


class Silence(NamedTuple):
    """That a stream has no session for at least this many seconds."""

    least_s: float


class Limit(NamedTuple):
    """That the mean of a metric is above a limit, or below."""

    metric: str
    is_above: bool
    limit: float


class Worse(NamedTuple):
    """That a metric is worse than before."""

    metric: str


Condition = Silence | Limit | Worse


class AlertRule(SettingsTable):
    """A table of the list `alerts`.

    `when` is the condition, `by` what divides sessions into streams (None: one stream of all). A stream
    counts from `min_sessions` sessions on: in its `window` for a limit, else in the seven windows before.
    `false_alarms` is how often all streams together may be said to be worse, or silent, by chance.
    """

    when: str
    by: By | None = None
    window: str = "24h"
    min_sessions: Annotated[int, Field(ge=2)] = 30
    false_alarms: Literal["once a day", "once a week", "once a month", "once a year"] = "once a month"

    @field_validator("window")
    @classmethod
    def _is_duration(cls, text: str) -> str:
        if seconds_of(text) < 60:
            raise ValueError(f"expected 1m or longer, found {text!r}")
        return text

    @model_validator(mode="after")
    def _checked(self) -> Self:
        self.condition  # noqa: B018 (it raises)
        return self

    @property
    def condition(self) -> Condition:
        """The condition, parsed. Raises ValueError for a text that is none."""
        text = self.when.strip()
        if found := _SILENCE.fullmatch(text):
            return Silence(seconds_of(found[1]))
        if found := _LIMIT.fullmatch(text):
            return Limit(found[1], found[2] == ">", float(found[3]))
        if found := _WORSE.fullmatch(text):
            return Worse(found[1])
        raise ValueError(f"{_EXPECTED}, found {self.when!r}")

    @property
    def window_ns(self) -> int:
        """The length of the window in ns."""
        return int(seconds_of(self.window) * 1e9)

    @property
    def per_false_alarm_ns(self) -> int:
        """The mean time between two false alarms in ns."""
        return _DAYS[self.false_alarms] * 86_400 * 10**9
