"""The kinds of reports that a grade writes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from spangrade.tracer.base.errors import InputError


class Report(StrEnum):
    """A kind of report; `json`, of which the others are made, is written with any."""

    JSON = "json"
    JUNIT = "junit"
    MARKDOWN = "markdown"
    HTML = "html"
    CSV = "csv"
    SUMMARY = "summary"


ALL_REPORTS = frozenset(Report)


def reports_named(names: str | Iterable[str]) -> frozenset[Report]:
    """Return the reports of some names, or of one text with commas between them. Raises InputError."""
    listed = names.split(",") if isinstance(names, str) else names
    wanted = [name.strip() for name in listed]
    for name in wanted:
        if name not in set(Report):
            raise InputError(f'no kind of report is named "{name}": expected of {", ".join(Report)}')
    return frozenset(map(Report, wanted))
