"""What an agent did in one session, as text for people: its verdict, then turn by turn with times."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from spangrade.evaluator.grading.stored_sessions import StoredGrade, StoredScore
from spangrade.evaluator.metrics.causes import causes_text
from spangrade.evaluator.metrics.external import ExternalScore
from spangrade.evaluator.reports.session_items import Item, TurnItems, session_items
from spangrade.evaluator.reports.tables import VERDICT_STYLES, cell, table
from spangrade.evaluator.session import LLMCall, Session, SimulatedMessage, Step, Turn
from spangrade.tracer.base.terminal import counted

_LABEL_WIDTH, _OFFSET_WIDTH = len("hand-off"), len("+1000.00 s")
_VERDICTS = {"inconclusive": "inconclusive", "failure": "broken", "judge_failure": "broken"}  # of gates


def session_text(
    s: Session, grade: StoredGrade | None, given: Sequence[ExternalScore] = (), *, is_alone: bool = False
) -> Iterator[RenderableType]:
    """Yield what a session did, its grade, and the scores that it was given elsewhere, part by part.

    Of one that `is_alone`, outside of its database, nothing is known of grades.
    """
    yield _head(s, grade, given, is_alone=is_alone)
    if s.assembly_error:
        return
    items = session_items(s)
    simulated = {one.turn: one for one in s.simulated_messages}
    origin_ns = s.start_ns if s.start_ns is not None else min((turn.start_ns for turn in s.turns), default=0)
    for of_turn in items.turns:
        yield _turn_heading(of_turn.turn, origin_ns, simulated.get(of_turn.turn.turn))
        yield _turn_grid(of_turn, origin_ns)
    for one in s.simulated_messages:
        if one.ended or one.error:
            yield cell(
                f"\nthe simulated user ended the conversation: {one.ended or one.error}; {one.why or ''}"
            )
    if items.outside:
        yield Text("\noutside the turns", "bold")
        yield _grid([row for item in items.outside for row in _rows_of(item, origin_ns)])
    if s.state_variables is not None:
        state = [{"variable": name, "value": value} for name, value in s.state_variables.items()]
        yield Text("")
        yield table(state, ("variable", "value"), "state at the end")
    if items.errors:
        rows = [{"where": error.where, "message": error.message} for error in items.errors]
        yield table(rows, ("where", "message"), "other errors")


def _head(s: Session, grade: StoredGrade | None, given: Sequence[ExternalScore], *, is_alone: bool) -> Table:
    """Return the session's ids, verdict and totals, each with its name before it."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold", ratio=1)
    made.add_row("session", Text.assemble((cell(s.session_id).plain, "bold"), f" ({s.session_id_source})"))
    made.add_row("question", cell(s.question_id or (grade.question_id if grade else None)))
    if not is_alone:
        made.add_row("verdict", _verdict_text(grade))
    if grade and grade.causes:
        made.add_row("where", cell(causes_text(grade.causes)))
    for verdict, text in _gates(grade) if grade else ():
        made.add_row("", Text.assemble((f"{verdict:<13}", VERDICT_STYLES.get(verdict, "")), text))
    if grade and grade.policy:
        made.add_row("also", _verdict_text(grade.policy))
        if grade.policy.reason:
            made.add_row("", cell(grade.policy.reason))
    for score in given:
        made.add_row("scored", cell(_given_text(score), newline=" "))
    made.add_row("agents", cell(", ".join(s.agents or ("unknown",))))
    made.add_row("models", cell(", ".join(s.models or ("unknown",))))
    if s.assembly_error:
        made.add_row("", Text.assemble("could not be assembled: ", cell(s.assembly_error)))
        return made
    usage, latency = s.usage, s.latency
    is_uncounted = usage.llm_calls is None and usage.input_tokens is not None
    calls = (
        "an unknown number of model calls" if is_uncounted else counted(usage.llm_calls or 0, "model call")
    )
    made.add_row(
        "tokens",
        f"{_or_unknown(usage.input_tokens)} in ({_or_unknown(usage.cached_input_tokens)} cached), "
        f"{_or_unknown(usage.output_tokens)} out ({_or_unknown(usage.reasoning_tokens)} reasoning), "
        f"in {calls}",
    )
    no_price = Text.assemble("unknown (no price: ", cell(s.cost_unknown or "no usage"), ")")
    made.add_row("cost", _cost(s.cost_usd, estimated=s.cost_estimated is not None) or no_price)
    made.add_row(
        "seconds",
        f"{_or_unknown(latency.total_s)}: models {_or_unknown(latency.llm_s)}, "
        f"tools {_or_unknown(latency.tool_s)}, framework {_or_unknown(latency.framework_s)}; "
        f"first response after {_or_unknown(latency.first_response_s)}",
    )
    if s.sample_ratio is not None:
        made.add_row("sample", f"recorded whole; {s.sample_ratio:.4g} of all sessions are")
    return made


def _given_text(score: ExternalScore) -> str:
    number = None if score.value is None else f"{score.value:g}"
    value = number if score.label is None else score.label
    turn = "" if score.turn is None else f" of turn {score.turn}"
    spans = f" at span {', '.join(score.evidence)}" if score.evidence else ""
    author = score.author or score.source
    return f"{score.name} {value}{turn}{spans} by {author}{score.note and f': {score.note}'}"


def _verdict_text(grade: StoredGrade | None) -> Text:
    if grade is None:
        return Text("not graded", "dim")
    return Text.assemble(
        (cell(grade.verdict).plain, VERDICT_STYLES.get(grade.verdict, "")),
        ", more arrived since" if grade.arrived_since else "",
        f", graded {grade.graded_at:%Y-%m-%d %H:%M} UTC against "
        if grade.dataset
        else f", graded {grade.graded_at:%Y-%m-%d %H:%M} UTC by gates alone",
        cell(grade.dataset),
        ", run ",
        cell(grade.run_named),
    )


def _gates(grade: StoredGrade) -> Iterator[tuple[str, Text]]:
    """Yield the verdict of each gate, with the metric's value and, unless it passed, the reason."""
    all_passed = True
    for score in grade.scores:
        if (verdict := _verdict_of(score, grade)) is None:
            continue
        value = "" if score.value is None else f" {score.value:.4g}{_expected(score, grade)}"
        why = "" if verdict == "passed" else score.reason or ""
        all_passed &= verdict == "passed"
        yield verdict, Text.assemble(cell(score.metric), value, ": " if why else "", cell(why))
    if grade.reason and all_passed:
        yield "", cell(grade.reason)  # not of a gate: there was nothing to compare with


def _expected(score: StoredScore, grade: StoredGrade) -> str:
    """Return what was expected of a gate that was missed, as far as the reason of the verdict says it."""
    stated = re.search(rf"(?:^|; ){re.escape(score.metric)}: [^;:]*(, expected [^;:]*)", grade.reason)
    return cell(stated[1]).plain if stated and score.passed is False else ""


def _verdict_of(score: StoredScore, grade: StoredGrade) -> str | None:
    """Return what a gate's outcome means; None for a metric that is only reported."""
    if score.passed is not None:
        return "passed" if score.passed else "failed"
    if score.outcome == "inconclusive" and f"{score.metric}: {score.reason}" not in grade.reason:
        return None
    return _VERDICTS.get(score.outcome)


def _described(item: Item) -> Text:
    record = item.record
    if isinstance(record, Step):
        return cell(record.name)
    if isinstance(record, LLMCall):
        cost = _cost(record.cost_usd, estimated=record.cost_estimated) or "unknown cost"
        return Text.assemble(cell(record.model), f"  {_tokens(record)}, {cost}, {_seconds(record.latency_s)}")
    status = {True: "ok", False: "failed", None: "unknown"}[record.ok]
    if record.approval == "asked":
        status = "waits for approval"
    elif record.approval is not None:
        status = record.approval if record.ok is None else f"{record.approval}, {status}"
    return Text.assemble(
        cell(record.tool_name),
        " ",
        cell(record.input_arguments),
        " → ",
        cell(record.output),
        f" ({status}, {_seconds(record.latency_s)})",
    )


def _turn_heading(turn: Turn, origin_ns: int, said: SimulatedMessage | None) -> Text:
    heading = Text.assemble("\n", (f"turn {turn.turn}", "bold"), f"  {_offset(turn.start_ns, origin_ns)}, ")
    heading.append(f"{_seconds(turn.latency_s)}")
    if said is not None:
        part = f", plan part {said.plan_part}" if said.plan_part else ""
        heading.append(f"  simulated{part}{', replayed' if said.source == 'replay' else ''}")
    return heading.append("  failed", VERDICT_STYLES["failed"]) if turn.failed else heading


def _turn_grid(of_turn: TurnItems, origin_ns: int) -> Table:
    rows: list[tuple[str, str, Text]] = [("user", "", cell(of_turn.turn.user_input))]
    for item in of_turn.items:
        rows += _rows_of(item, origin_ns)
    for error in of_turn.errors:
        rows.append(("error", "", Text.assemble(cell(error.where), ": ", cell(error.message))))
    return _grid([*rows, ("answer", "", cell(of_turn.turn.final_response))])


def _rows_of(item: Item, origin_ns: int) -> Iterator[tuple[str, str, Text]]:
    """Yield the lines of an item and of the errors in it."""
    yield item.kind, _offset(item.start_ns, origin_ns), _described(item)
    for error in item.errors:
        yield "error", "", cell(error.message or "without a message")


def _grid(rows: list[tuple[str, str, Text]]) -> Table:
    made = Table.grid(padding=(0, 1, 0, 0))
    made.add_column(width=1)
    made.add_column(width=_LABEL_WIDTH, no_wrap=True)
    made.add_column(width=_OFFSET_WIDTH, justify="right", no_wrap=True)
    made.add_column(overflow="fold", ratio=1)
    for label, offset, text in rows:
        made.add_row("", Text(label, VERDICT_STYLES["failed"] if label == "error" else ""), offset, text)
    return made


def _offset(at_ns: int, origin_ns: int) -> str:
    return f"{(at_ns - origin_ns) / 1e9:+z.2f} s"


def _tokens(call: LLMCall) -> str:
    if call.input_tokens is None and call.output_tokens is None:
        return "unknown tokens"
    return f"{_or_unknown(call.input_tokens)} → {_or_unknown(call.output_tokens)} tokens"


def _cost(usd: float | None, *, estimated: bool) -> str | None:
    return None if usd is None else f"${usd:.6f}{' (estimated)' if estimated else ''}"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "unknown duration"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def _or_unknown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"
