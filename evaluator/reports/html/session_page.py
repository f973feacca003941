"""The page of one session: the conversation, its verdict, its spans over time, and what was expected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.derive.schema import RECORDS, TABLES
from spangrade.evaluator.derive.sync.recorded import Row
from spangrade.evaluator.grading.stored_sessions import StoredGrade, StoredScore
from spangrade.evaluator.maintenance.lint import Finding, lint
from spangrade.evaluator.metrics import load_metrics
from spangrade.evaluator.metrics.causes import WhatRan, cause_text, span_ids, span_places
from spangrade.evaluator.metrics.external import COMMENT, ExternalScore, external_scores
from spangrade.evaluator.reports.html.alignment import Alignment, alignment
from spangrade.evaluator.reports.html.conversation import ShownConversation, conversation
from spangrade.evaluator.reports.html.images import Image, first_shown, images_of, may_have_images
from spangrade.evaluator.reports.html.session_source import (
    SessionSource,
    VerdictOfRun,
    json_record,
    session_source,
    span_record,
    spans_of_session,
    state_changes,
    stored_session,
)
from spangrade.evaluator.reports.html.texts import CHUNK, LONGEST, Place, Text, TextLimits, chunk, text
from spangrade.evaluator.reports.html.waterfall import Waterfall, waterfall
from spangrade.evaluator.review.session_to_golden import question_of
from spangrade.evaluator.session import Session, SimulatedMessage
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.terminal import printable_json
from spangrade.tracer.store import Store

State = Literal["passed", "failed", "inconclusive", "broken", "not applicable", "measured", "unknown"]

_ATTRIBUTE = "attributes."
_STATES: Mapping[str, State] = {
    "inconclusive": "inconclusive",
    "not_applicable": "not applicable",
    "failure": "broken",
    "judge_failure": "broken",
}
_GRAVEST_FIRST: tuple[State, ...] = (
    "broken",
    "failed",
    "inconclusive",
    "passed",
    "not applicable",
    "measured",
    "unknown",
)


class ShownOutcome(NamedTuple):
    """One metric on the session. `compares` says that it compares with what was expected."""

    metric: str
    state: State
    value: float | None
    threshold: str
    reason: str
    evidence: tuple[str, ...]
    where: str
    is_gate: bool
    compares: bool


class Golden(NamedTuple):
    """The session as a golden question in JSON, or why it cannot be one; `loaded` is false for a long one."""

    text: str = ""
    problem: str = ""
    loaded: bool = True


class PlanPart(NamedTuple):
    """A part of the plan of a simulated user, and the turns that were about it."""

    text: str
    turns: tuple[int, ...]


class SessionPage(NamedTuple):
    """What the page of a session shows.

    `waterfall` and `findings` are None where they are loaded on demand, `alignment` where there is nothing to
    compare with. `given` are the scores that no run made, `verdicts` those
    of the latest runs.
    """

    session: Session
    grade: StoredGrade | None
    outcomes: tuple[ShownOutcome, ...]
    findings: tuple[Finding, ...] | None
    conversation: ShownConversation
    waterfall: Waterfall | None
    spans: int
    alignment: Alignment | None
    golden: Golden
    given: tuple[ExternalScore, ...]
    verdicts: tuple[VerdictOfRun, ...]
    plan: tuple[PlanPart, ...] = ()

    @property
    def comments(self) -> Mapping[str, list[ExternalScore]]:
        """What people said of steps, by span."""
        return comments_of(self.given)

    @property
    def reason(self) -> str:
        """What the reason of the verdict says beside the outcomes of the gates."""
        reason = "" if self.grade is None else self.grade.reason
        for one in self.outcomes:
            if one.is_gate and one.reason:
                said = rf"{re.escape(one.metric)}: (?:[^;]*: )?{re.escape(one.reason)}(?:; |$)"
                reason = re.sub(said, "", reason, count=1)
        return reason.removesuffix("; ")

    @property
    def simulated(self) -> dict[int, SimulatedMessage]:
        """What the simulated user said, by turn."""
        return {one.turn: one for one in self.session.simulated_messages if one.text is not None}


def comments_of(given: Iterable[ExternalScore]) -> dict[str, list[ExternalScore]]:
    """Return the comments among scores that were given to steps, by span."""
    comments: dict[str, list[ExternalScore]] = {}
    for one in given:
        if one.name == COMMENT and one.label is not None:
            for span_id in one.evidence:
                comments.setdefault(span_id, []).append(one)
    return comments


def page_of(source: SessionSource, limits: TextLimits = TextLimits()) -> SessionPage:  # noqa: B008 (a value)
    """Return the page of a session. Of a large one the server loads turns and spans on demand."""
    session, grade = source.session, source.grade
    later = source.state_changes is None
    evidence = frozenset(
        span for score in (grade.scores if grade else ()) for span in span_ids(score.evidence)
    )
    return SessionPage(
        session,
        grade,
        outcomes(grade, span_places(session)),
        source.findings,
        conversation(
            session,
            source.state_changes or (),
            longest=limits.longest,
            most_items=0 if later else limits.items,
        ),
        None if later else waterfall(session, source.spans, most_bars=limits.bars, always=evidence),
        source.span_count,
        None if source.question is None else alignment(session, source.question),
        Golden(loaded=False) if later or not limits.with_golden else golden(session),
        source.given,
        source.verdicts,
        tuple(_plan(session, source.question)),
    )


def _plan(session: Session, question: GoldenQuestion | None) -> Iterator[PlanPart]:
    """Yield the parts of the plan of a session's simulated user."""
    if question is None or question.scenario is None or not session.simulated:
        return
    for number, part in enumerate(question.scenario.filled_plan, 1):
        about = (one.turn for one in session.simulated_messages if one.plan_part == number and one.text)
        yield PlanPart(part, tuple(about))


def outcomes(grade: StoredGrade | None, places: Mapping[str, WhatRan]) -> tuple[ShownOutcome, ...]:
    """Return the outcomes of a session's metrics, the gravest first, what is only reported last."""
    if grade is None:
        return ()
    made = [_outcome(score, grade, places) for score in grade.scores]
    return tuple(sorted(made, key=lambda one: (not one.is_gate, _GRAVEST_FIRST.index(one.state))))


def _outcome(score: StoredScore, grade: StoredGrade, places: Mapping[str, WhatRan]) -> ShownOutcome:
    thresholds = grade.thresholds
    state: State = "measured"
    if score.passed is not None:
        state = "passed" if score.passed else "failed"
    else:
        state = _STATES.get(score.outcome, "measured")
    is_gate = score.passed is not None or (
        score.metric in thresholds
        if thresholds is not None
        else f"{score.metric}: {score.reason}" in grade.reason
    )
    if state == "inconclusive" and not is_gate:
        state = "unknown"  # nothing is decided by it
    installed = load_metrics().get(score.metric.partition(":")[0])
    return ShownOutcome(
        score.metric,
        state,
        score.value,
        (thresholds or {}).get(score.metric, ""),
        score.reason or "",
        span_ids(score.evidence),
        cause_text(score.evidence[0], places) if state == "failed" and score.evidence else "",
        is_gate,
        installed is not None and installed.needs not in (None, "user_inputs"),
    )


def golden(session: Session, longest: int = CHUNK) -> Golden:
    """Return a session as a golden question; one longer than `longest` is not loaded."""
    try:
        question, _ = question_of(session, session.question_id or session.session_id)
    except InputError as error:
        return Golden(problem=str(error))
    written = printable_json(dumps(question, indent=True))
    return Golden(written) if len(written) <= longest else Golden(loaded=False)


def session_page(store: Store, session_id: str, run_id: str | None = None) -> dict[str, Any]:
    """Return the values of `session.html`, of an existing session, with the grade of a run or the latest."""
    records: list[dict[str, Any]] = []

    def keep_with_images(_: str, row: Row) -> None:
        if may_have_images(row):
            records.append(json_record(row))

    page = page_of(session_source(store, session_id, run_id, keep_with_images))
    records.sort(key=lambda record: record["start_ns"])
    return {
        "page": page,
        "session_id": session_id,
        "requested_run": run_id,
        "pictures": first_shown(records),
    }


def session_part(
    store: Store, session_id: str, name: str, values: Mapping[str, str]
) -> tuple[str, dict[str, Any]] | None:
    """Return the template and the values of a part of a session that is loaded on demand.

    The parts are `text` (more of a long value), `turn` (more of its items), `waterfall`, `findings`, `span`
    (all that is stored of it), `attribute` (more of one) and `golden` (the golden question). None if there
    is no such part.
    """
    make = _PARTS.get(name)
    found = None if make is None else make(store, session_id, values)
    return None if found is None else ("part.html", {"part": found[0], **found[1]})


def _text(store: Store, session_id: str, values: Mapping[str, str]) -> tuple[str, dict[str, Any]] | None:
    place = Place(values.get("table", ""), _number(values, "number"), values.get("field", ""))
    try:
        if place.table == "state":
            value = state_changes(store, session_id)[place.number].variables[place.field]
        else:
            value = _value_at(stored_session(store, session_id), place)
    except (KeyError, IndexError):
        return None
    more = chunk(value, place, _number(values, "offset"))
    return "part_text.html", {"chunk": more, "session_id": session_id}


def _value_at(session: Session, place: Place) -> Any:
    """Return the value at a place of a session. Raises KeyError if there is none."""
    values = session.to_json()
    if place.table not in RECORDS:
        return {"sessions": values}[place.table][place.field]
    columns = {column.name for column in TABLES[place.table].shown}
    number = next((name for name in ("position", "turn") if name in columns), None)
    records = getattr(session, place.table)
    numbers = [at if number is None else getattr(one, number) for at, one in enumerate(records, 1)]
    return dict(zip(numbers, values[place.table], strict=True))[place.number][place.field]


def _turn(store: Store, session_id: str, values: Mapping[str, str]) -> tuple[str, dict[str, Any]] | None:
    session, changes = stored_session(store, session_id), state_changes(store, session_id)
    number, skip = _number(values, "number"), _number(values, "skip")
    made = conversation(session, changes, skip=skip)
    turn = next((turn for turn in made.turns if turn.number == number), None)
    if turn is None:
        return None
    given = external_scores(store, [session_id]).get(session_id, ())
    shown = {"turn": turn, "session_id": session_id, "shown": skip + len(turn.items)}
    return "part_items.html", {**shown, "comments": comments_of(given)}


def _waterfall(store: Store, session_id: str, values: Mapping[str, str]) -> tuple[str, dict[str, Any]] | None:
    session, spans = stored_session(store, session_id), spans_of_session(store, session_id)
    skip = _number(values, "skip")
    shown = waterfall(session, spans, skip=skip)
    template = "part_bars.html" if skip else "part_waterfall.html"
    return template, {"waterfall": shown, "session_id": session_id, "spans": len(spans)}


def _findings(store: Store, session_id: str, values: Mapping[str, str]) -> tuple[str, dict[str, Any]] | None:  # noqa: ARG001
    return "part_findings.html", {"findings": tuple(lint(store, session_id))}


class SpanField(NamedTuple):
    """A field of a stored span, or one of its attributes."""

    name: str
    value: Text

    @property
    def label(self) -> str:
        """The name of the field, or of the attribute alone."""
        return self.name.removeprefix(_ATTRIBUTE)

    @property
    def is_attribute(self) -> bool:
        """Whether it is an attribute of the span."""
        return self.name.startswith(_ATTRIBUTE)


def span_fields(record: Mapping[str, Any], longest: int = LONGEST) -> tuple[SpanField, ...]:
    """Return what is stored of a span field by field, and attribute by attribute."""
    fields = {name: value for name, value in record.items() if name != "attributes"}
    listed = {**{f"{_ATTRIBUTE}{name}": value for name, value in record["attributes"].items()}, **fields}
    return tuple(
        SpanField(name, text(value, Place("spans", 0, name), longest))
        for name, value in listed.items()
        if value not in (None, [], {})
    )


def _span(store: Store, session_id: str, values: Mapping[str, str]) -> tuple[str, dict[str, Any]] | None:
    record = span_record(store, session_id, values.get("id", ""))
    if record is None:
        return None
    source = session_source(store, session_id, values.get("run") or None)
    expected = None if source.question is None else alignment(source.session, source.question).calls
    places = span_places(source.session)
    return "part_span.html", {
        "record": record,
        "fields": span_fields(record),
        "session_id": session_id,
        "call": next((one for one in expected or () if one.span_id == record["span_id"]), None),
        "evidence_of": [one for one in outcomes(source.grade, places) if record["span_id"] in one.evidence],
        "images": images_of(record),
    }


def image_of(store: Store, session_id: str, span_id: str, number: int) -> Image | None:
    """Return an image that a span of a session records, from 0; None if there is none."""
    record = span_record(store, session_id, span_id)
    found = () if record is None else images_of(record)
    return found[number] if number < len(found) else None


def _attribute(store: Store, session_id: str, values: Mapping[str, str]) -> tuple[str, dict[str, Any]] | None:
    record = span_record(store, session_id, values.get("id", ""))
    name = values.get("field", "")
    if record is None:
        return None
    attribute = name.removeprefix(_ATTRIBUTE)
    value = record["attributes"].get(attribute) if name != attribute else record.get(name)
    if value is None:
        return None
    more = chunk(value, Place("spans", 0, name), _number(values, "offset"))
    return "part_text.html", {"chunk": more, "session_id": session_id, "span_id": record["span_id"]}


def _golden(store: Store, session_id: str, values: Mapping[str, str]) -> tuple[str, dict[str, Any]] | None:  # noqa: ARG001
    session = stored_session(store, session_id)
    return "part_golden.html", {"golden": golden(session, longest=2**63), "session_id": session_id}


def _number(values: Mapping[str, str], name: str) -> int:
    """Return a number of a request, 0 for anything else."""
    value = values.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 16 else 0


_PARTS = {
    "text": _text,
    "turn": _turn,
    "waterfall": _waterfall,
    "findings": _findings,
    "span": _span,
    "attribute": _attribute,
    "golden": _golden,
}
