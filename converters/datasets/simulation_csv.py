"""Datasets of simulations: one session per row, in a CSV or in JSON lines of processed interactions."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from json import JSONDecodeError
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from spangrade.converters.datasets.adk_debug import read_trace
from spangrade.converters.datasets.adk_events import Invocation, invocations, objects, spans_of, state_of
from spangrade.converters.datasets.adk_history import EvalCase, EvalScore, score_attributes
from spangrade.converters.datasets.files import csv_rows, separate
from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.converters.spans.values import either
from spangrade.tracer import semconv
from spangrade.tracer.base.canonical_json import canonical, dumps
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.json_text import parse_exact, parse_written, refusal
from spangrade.tracer.span import Problem, Span

COLUMNS = (
    "question_id",
    "session_id",
    "agents_evaluated",
    "user_inputs",
    "final_response",
    "sub_agent_trace",
    "trace_summary",
    "extracted_data",
    "session_trace",
    "reference_data",
)
REQUIRED = frozenset({"user_inputs", "session_trace"})
_SESSION_RECORDS = ("session_state", "final_session_state")
_LISTS = ("user_inputs", "agents_evaluated", "session_trace", "sub_agent_trace")
_SESSION_IDS = (semconv.CONVERSATION_ID, "gcp.vertex.agent.session_id")
_ID = re.compile(r"[0-9a-fA-F]{1,39}")
_LONGEST_HEADER = 1 << 16  # characters
_HEXADECIMAL = re.compile(r"[a-fA-F]")
_OBJECTS = ("extracted_data", "reference_data", "question_metadata", *_SESSION_RECORDS)
_RECORDED = frozenset({"session_trace", "sub_agent_trace", "extracted_data", *_SESSION_RECORDS})


class Row(NamedTuple):
    """One session of a dataset: its place in the file, its columns as JSON values, and its number, from 1."""

    where: str
    values: dict[str, Any]
    number: int = 0

    @property
    def recorded_id(self) -> Any:
        """The id of the question that the session answers; None if the row has none."""
        return self.values.get("question_id") or self.values.get("eval_id")

    @property
    def question_id(self) -> Any:
        """The id of the question that the session answers: the row's, else one of the row's number."""
        return self.recorded_id or f"row-{self.number}"

    @property
    def app_name(self) -> str | None:
        """The name of the app of Google ADK, of the row or of its session record; None if there is none."""
        name = self.values.get("app_name") or either(self.session_record, "app_name")
        return name if isinstance(name, str) and name else None

    @property
    def scores(self) -> dict[str, Any]:
        """The scores of ADK's metrics in the columns `score.…` and `adk_score.…`, as attributes."""
        named = ((name.partition("score."), value) for name, value in self.columns.items())
        found = [
            EvalScore(metric, number, None, None)
            for (before, _, metric), value in named
            if before in ("", "adk_") and metric and (number := _as_number(value)) is not None
        ]
        return score_attributes(found)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that have a value."""
        return {name: value for name, value in self.values.items() if value is not None}

    @property
    def session_record(self) -> dict[str, Any] | None:
        """The session in the form of ADK's session service, with its events; None if the row has none."""
        return next((self.values[key] for key in _SESSION_RECORDS if self.values.get(key)), None)


def csv_text(cases: Iterable[tuple[EvalCase, Sequence[Span], GoldenQuestion | None]]) -> str:
    """Return the CSV of eval cases, each with its spans and the golden question that it answers, if any."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for case, spans, question in cases:
        values = _values(case, spans, question)
        writer.writerow({k: v if isinstance(v, str) else dumps(v) for k, v in values.items()})
    return text.getvalue()


def _values(case: EvalCase, spans: Sequence[Span], question: GoldenQuestion | None) -> dict[str, Any]:
    replies = [
        {"agent_name": event.author, "text_response": event.text}
        for turn in case.turns
        for event in turn.events
        if event.text
    ]
    calls = [
        {
            "tool_name": call.name,
            "input_arguments": call.arguments,
            "call_id": call.call_id,
            "output_result": call.response,
        }
        for turn in case.turns
        for call in turn.calls
    ]
    extracted: dict[str, Any] = {
        "state_variables": case.state,
        "tool_interactions": calls,
        "sub_agent_trace": replies,
    }
    if case.tool_declarations:
        extracted["tool_declarations"] = case.tool_declarations
    if case.system_instruction:
        extracted["system_instruction"] = case.system_instruction
    return {
        "question_id": question.id if question else case.eval_id,
        "session_id": case.session_id,
        "agents_evaluated": question.agents_evaluated
        if question
        else [case.app_name]
        if case.app_name
        else [],
        "user_inputs": [turn.user_input or "" for turn in case.turns],
        "final_response": case.turns[-1].response or "",
        "sub_agent_trace": replies,
        "trace_summary": "\n".join(_summary(case.turns, spans)),
        "extracted_data": extracted,
        "session_trace": [_debug_span(span) for span in spans],
        "reference_data": question.model_dump(mode="json", exclude_unset=True)["reference_data"]
        if question
        else {},
    }


def _summary(turns: Iterable[Invocation], spans: Iterable[Span]) -> Iterator[str]:
    """Yield the lines of a session's conversation, with the agents and tools that started in each turn.

    They are those that a judge is shown of the session if it is graded from the database.
    """
    by_trace: dict[str, list[Span]] = {}
    for span in sorted(spans, key=lambda span: (span.start_ns, span.span_id)):
        by_trace.setdefault(span.trace_id, []).append(span)
    named, first = None, None
    for turn, steps in zip(turns, by_trace.values(), strict=True):
        yield f"User: {_or_unknown(turn.user_input)}"
        speaker = None
        for span in steps:
            known = span.attributes
            operation, agent = known.get(semconv.OPERATION_NAME), known.get(semconv.AGENT_NAME)
            if operation == semconv.INVOKE_AGENT and agent != named:
                named, first = agent, first or agent
                yield f"[agent] {agent}"
            elif operation == semconv.EXECUTE_TOOL:
                arguments = canonical(parse_exact(known[semconv.TOOL_CALL_ARGUMENTS]))
                yield f"[tool] {known[semconv.TOOL_NAME]} {arguments}"
            elif operation == semconv.CHAT:
                speaker = agent
        yield f"{speaker or first or 'Agent'}: {_or_unknown(turn.response)}"


def _or_unknown(text: str | None) -> str:
    return "(not recorded)" if text is None else text


def _debug_span(span: Span) -> dict[str, Any]:
    """Return a span in the form of ADK's debug API, with ids as text: JSON readers may cut 64-bit numbers."""
    return {
        "name": span.name,
        "span_id": str(int(span.span_id, 16)),
        "trace_id": str(int(span.trace_id, 16)),
        "parent_span_id": str(int(span.parent_span_id, 16)) if span.parent_span_id else None,
        "start_time": span.start_ns,
        "end_time": span.end_ns,
        "attributes": span.attributes,
    }


def is_simulation_csv(path: Path) -> bool:
    """Return whether a file is a CSV with the required columns."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            head = io.StringIO(file.read(_LONGEST_HEADER), newline="")  # a JSON file may be one long line
        return REQUIRED.issubset(next(csv.reader(head), ()))
    except (OSError, UnicodeDecodeError, csv.Error):
        return False


def read_csv(path: Path) -> Iterator[Row | Problem]:
    """Yield the rows of a CSV, and a Problem for each broken cell. Raises InputError for any other file."""
    csv.field_size_limit(2**31 - 1)  # a session's spans are one cell
    with csv_rows(path) as reader:
        missing = REQUIRED.difference(reader.fieldnames or ())
        if missing:
            raise InputError(f"{path}: not a simulation's CSV: no column {', '.join(sorted(missing))}")
        for number, cells in enumerate(reader, 1):
            yield from _row(f"{path}: row {number}", cells, number)


def read_jsonl(path: Path) -> Iterator[Row | Problem]:
    """Yield the rows of JSON lines, and a Problem for each broken line. Raises InputError without a file."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.isspace():
                    continue
                where = f"{path}:{number}"
                try:
                    values = parse_written(line, _RECORDED)
                except JSONDecodeError as error:
                    yield Problem(where, refusal(error, number))
                    continue
                missing = REQUIRED.difference(values) if isinstance(values, dict) else REQUIRED
                if missing:
                    yield Problem(where, f"not a processed interaction: missing {', '.join(sorted(missing))}")
                    continue
                yield from _row(where, values, number)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def _row(where: str, cells: Mapping[str, Any], number: int) -> Iterator[Row | Problem]:
    row = Row(where, {}, number)
    row_id = cells.get("question_id") or cells.get("eval_id")
    at = f'{where} (id "{row_id}")' if row_id else where
    problems = []
    for column, cell in cells.items():
        if column is None:  # cells beyond the header
            problems.append(Problem(at, "more cells than the header has columns"))
            continue
        kind = list if column in _LISTS else dict if column in _OBJECTS else None
        try:
            value = _cell(cell, column, as_json=kind is not None)
        except JSONDecodeError as error:
            problems.append(Problem(f"{at}: {column}", refusal(error)))
            continue
        if kind and value is not None and not isinstance(value, kind):
            expected = "a list" if kind is list else "an object"
            problems.append(
                Problem(f"{at}: {column}", f"expected {expected} as JSON, found {dumps(value)[:40]}")
            )
        row.values[column] = value
    if problems:
        yield from problems
    else:
        yield row._replace(where=at)


def _cell(cell: Any, column: str, *, as_json: bool) -> Any:
    """Return a cell's value; None if it is blank. Raises JSONDecodeError for a text that should be JSON."""
    if not isinstance(cell, str):
        return cell
    if not cell.strip():
        return None
    if not as_json:
        return cell
    return parse_exact(cell) if column in _RECORDED else parse_written(cell)


def spans_in(row: Row) -> Iterator[Span | Problem]:
    """Yield the spans of a row's session.

    They come from `session_trace`, unless its spans have parents in other traces: the first converter that
    wrote such files gave each span a trace of its own and each step one second. Then they are made from the
    events of the row's session record.
    """
    where, record = f"{row.where}: session_trace", row.session_record
    spans, problems = _debug_spans(row.values.get("session_trace") or [], where)
    traces = {span.span_id: span.trace_id for span in spans}
    torn = any(traces.get(span.parent_span_id or "", span.trace_id) != span.trace_id for span in spans)
    if spans and not torn:
        yield from problems
        yield from _completed(row, spans)
        return
    if record is None:
        if torn:
            message = (
                "its spans have parents in other traces, and the row has no session_state to read instead"
            )
            problems.append(Problem(where, message))
        yield from problems or [Problem(where, "missing or empty")]
        return
    if torn:
        problems.append(Problem(where, "not read: its spans have parents in other traces"))
    for problem in problems:
        message = f"{problem.message}; the session is read from its own events"
        yield problem._replace(message=message, dropped=False)
    yield from _spans_of_record(row, record)


def _debug_spans(records: Sequence[Any], where: str) -> tuple[list[Span], list[Problem]]:
    ids = [
        value
        for record in objects(records)
        for key, value in record.items()
        if key.endswith("_id") and isinstance(value, str)
    ]
    base = 16 if any(_HEXADECIMAL.search(value) for value in ids) else 10
    numbered = [
        {key: _number(value, base) if key.endswith("_id") else value for key, value in record.items()}
        if isinstance(record, dict)
        else record
        for record in records
    ]
    read = read_trace(numbered)
    if records and read is None:
        return [], [Problem(where, "not spans in the form of ADK's debug API")]
    spans, problems = separate(read or ())
    return spans, [problem._replace(where=f"{where} {problem.where}".rstrip()) for problem in problems]


def _number(value: Any, base: int) -> Any:
    """Return an id in text as a number; any other value as it is."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        return value
    try:
        return int(value, base)
    except ValueError:
        return value


def _completed(row: Row, spans: Sequence[Span]) -> Iterator[Span]:
    """Yield spans, the topmost with the values of the row alone: session id, question id and state."""
    extracted = row.values.get("extracted_data") or {}
    state = state_of({"state": extracted.get("state_variables")})
    row_attributes = {
        semconv.CONVERSATION_ID: row.values.get("session_id") or _of_first_trace(spans),
        semconv.QUESTION_ID: row.recorded_id,
        semconv.APP_NAME: row.app_name,
    }
    ids = {span.span_id for span in spans}
    tops = [span for span in spans if span.parent_span_id not in ids]
    last = max(tops, key=lambda span: span.start_ns)
    stateless = not any(semconv.STATE in span.attributes for span in spans)
    for span in spans:
        if span.parent_span_id in ids:
            yield span
            continue
        known = {key: value for key, value in row_attributes.items() if value}
        if span is last and stateless and state is not None:
            known[semconv.STATE] = dumps(state)
        if span is last:
            known |= row.scores
        yield span._replace(attributes={**known, **span.attributes})


def _as_number(value: Any) -> float | None:
    """Return a number, or that of a text; None for anything else."""
    try:
        number = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
    return number if number is not None and isfinite(number) else None


def _of_first_trace(spans: Sequence[Span]) -> str | None:
    """Return an id for a session of several traces without any; else None."""
    named = any(key in span.attributes for span in spans for key in _SESSION_IDS)
    return None if named or len({span.trace_id for span in spans}) == 1 else spans[0].trace_id


def _spans_of_record(row: Row, record: Mapping[str, Any]) -> Iterator[Span | Problem]:
    turns, problems = separate(invocations(record, f"{row.where}: session_state"))
    yield from problems
    session_id = row.values.get("session_id") or record.get("id")
    if not turns or not isinstance(session_id, str):
        yield Problem(f"{row.where}: session_state", "no id or no events, which record what the agent did")
        return
    yield from spans_of(
        session_id,
        list(_with_arguments(turns, row)),
        state_of(record),
        row.recorded_id,
        app_name=row.app_name,
        scores=row.scores,
    )


def _with_arguments(turns: Sequence[Invocation], row: Row) -> Iterator[Invocation]:
    """Yield turns with their calls' arguments from the row's other columns, if those have the same calls.

    In the session records of such files all keys inside arguments were converted to camelCase.
    """
    attributes = [span.get("attributes") for span in objects(row.values.get("session_trace"))]
    recorded = [
        (a.get(semconv.TOOL_NAME), _json(a["gcp.vertex.agent.tool_call_args"]))
        for a in attributes
        if isinstance(a, dict) and "gcp.vertex.agent.tool_call_args" in a
    ] or [
        (call.get("tool_name"), call.get("input_arguments"))
        for call in objects((row.values.get("extracted_data") or {}).get("tool_interactions"))
    ]
    same = [name for name, _ in recorded] == [call.name for turn in turns for call in turn.calls]
    arguments = iter(value for _, value in recorded)
    for turn in turns:
        events = []
        for event in turn.events:
            calls = [(call, next(arguments, None) if same else None) for call in event.calls]
            corrected = tuple(c._replace(arguments=v) if isinstance(v, dict) else c for c, v in calls)
            events.append(event._replace(calls=corrected))
        yield turn._replace(events=tuple(events))


def _json(value: Any) -> Any:
    try:
        return parse_exact(value) if isinstance(value, str) else value
    except JSONDecodeError:
        return None
