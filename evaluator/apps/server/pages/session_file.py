"""One session as a file to send: its page in HTML, or its records in JSON, without personal data if asked."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, cast

from pydantic import ValidationError

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.apps.server.pages.export import LIMITS, SiteLinks
from spangrade.evaluator.derive.sync.recorded import Row
from spangrade.evaluator.reports.html.session_page import SpanField, span_fields
from spangrade.evaluator.reports.html.session_source import json_record, session_source
from spangrade.evaluator.reports.html.static_files import ReadSession, session_html
from spangrade.evaluator.reports.json import external_score_json
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.terminal import printable_json
from spangrade.tracer.redaction import KEPT, Redaction
from spangrade.tracer.store import Store

Kind = Literal["html", "json"]

_LONGEST = 20_000  # characters of an attribute
_T = TypeVar("_T")


class _FileLinks(SiteLinks):
    """The links of a file that is alone."""

    def __init__(self) -> None:
        super().__init__("", frozenset())

    def sessions(self, **filters: str) -> str:  # noqa: ARG002
        """Return no address."""
        return ""

    def run(self, run_id: str) -> str:  # noqa: ARG002
        """Return no address."""
        return ""


def session_file(
    store: Store, session_id: str, kind: Kind, *, run_id: str | None = None, redacted: bool = False
) -> str:
    """Return a session as a file of HTML, or as `spangrade show --format json` prints it.

    It has the grade of a run, else the latest. If it is `redacted`, personal data and secrets are masked in
    every text, as the tracer does it before storing. Raises InputError if there is no such session.
    """
    redaction = Redaction("mask") if redacted else None
    details: dict[str, tuple[SpanField, ...]] = {}

    def read_span(_: str, row: Row) -> None:
        record = json_record(row)
        if redaction is not None:
            kept = {name: value for name, value in record.items() if name in KEPT}
            record = {**redaction.value(record), **kept}
        details[record["span_id"]] = span_fields(record, _LONGEST)

    source = session_source(store, session_id, run_id, read_span)
    if redaction is not None:
        source = _redacted(source, redaction)
    if kind == "json":
        grade = source.grade and source.grade.to_json()
        given = [external_score_json(one) for one in source.given]
        made = {**source.session.to_json(), "grade": grade, "external_scores": given}
        return printable_json(dumps(redaction.value(made) if redaction else made, indent=True)) + "\n"
    return session_html(ReadSession(source, details), _FileLinks(), LIMITS, template="export_session.html")


def _redacted(value: _T, redaction: Redaction) -> _T:
    """Return a value with the texts in it redacted; ids of spans and traces stay."""
    if isinstance(value, GoldenQuestion):
        return cast(_T, _redacted_question(value, redaction))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        record: Any = value
        parts = {
            name: _redacted(getattr(record, name), redaction) for name in record._fields if name not in KEPT
        }
        return cast(_T, record._replace(**parts))
    if is_dataclass(value) and not isinstance(value, type):
        parts = {
            one.name: _redacted(getattr(value, one.name), redaction)
            for one in fields(value)
            if one.init and one.name not in KEPT
        }
        return cast(_T, replace(value, **parts))
    if isinstance(value, tuple | list):
        return cast(_T, type(value)(_redacted(one, redaction) for one in value))
    return cast(_T, redaction.value(value) if isinstance(value, str | dict) else value)


def _redacted_question(question: GoldenQuestion, redaction: Redaction) -> GoldenQuestion | None:
    """Return a question redacted; None if it is not one any more."""
    written = question.model_dump(mode="json", exclude_unset=True)
    try:
        return GoldenQuestion.model_validate(redaction.value(written))
    except ValidationError:
        return None
