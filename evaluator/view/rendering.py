"""Templates into HTML. Everything that was recorded is hostile: all of it is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from spangrade.evaluator.view.links import Links, element_id

FOLDER = Path(__file__).parent
UNKNOWN = "–"


@cache
def environment() -> jinja2.Environment:
    """Return the environment of the templates."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": count,
        "element_id": element_id,
        "percent": percent,
        "seconds": seconds,
        "time": time,
        "usd": usd,
    }
    return made


def render(template: str, values: Mapping[str, Any], links: Links) -> str:
    """Return a template as HTML. A lone surrogate, which UTF-8 cannot hold, becomes "?".

    `prefix`, empty unless given, begins the ids of elements: a file of several sessions has one for each.
    """
    text = environment().get_template(template).render({"prefix": "", **values, "links": links})
    return text.encode("utf-8", "replace").decode("utf-8")


def time(value: datetime | int | None) -> str:
    """Return a time in UTC, to the second; an integer is in nanoseconds since 1970."""
    if value is None:
        return UNKNOWN
    if isinstance(value, int):
        try:
            value = datetime.fromtimestamp(value // 1_000_000_000, UTC)
        except (OverflowError, ValueError, OSError):
            return f"{value} ns"
    return value.strftime("%Y-%m-%d %H:%M:%S")


def seconds(value: float | None) -> str:
    """Return a duration."""
    if value is None:
        return UNKNOWN
    if value and abs(value) < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.1f} s" if value < 1000 else f"{value:,.0f} s"


def usd(value: float | None) -> str:
    """Return a price."""
    if value is None:
        return UNKNOWN
    return f"${value:,.2f}" if value >= 1 or not value else f"${value:.4g}"


def count(value: float | None) -> str:
    """Return a number, with thousands separated and at most four significant digits of a fraction."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"


def percent(value: float | None) -> str:
    """Return a share, from 0 to 1, in percent."""
    return UNKNOWN if value is None else f"{value:.1%}"
