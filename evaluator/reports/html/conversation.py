"""A session as a conversation: turn by turn what was said, called, handed over and set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from spangrade.evaluator.metrics.matching import json_equal
from spangrade.evaluator.reports.html.session_source import StateChange
from spangrade.evaluator.reports.html.texts import LONGEST, Place, Text, TextLimits, text
from spangrade.evaluator.reports.session_items import Item as Started
from spangrade.evaluator.reports.session_items import TurnItems, session_items
from spangrade.evaluator.session import Error, LLMCall, RequestedCall, Session, Step, Turn

Kind = Literal["agent", "model", "tool", "hand-off", "state", "requested", "error"]
Status = Literal["ok", "failed", "unknown"]


class ShownProblem(NamedTuple):
    """An error: what failed, and its message."""

    where: str
    message: str
    span_id: str | None


class Variable(NamedTuple):
    """A state variable that was set; `before` is None where it was not set before."""

    name: str
    before: Text | None
    after: Text


class ShownItem(NamedTuple):
    """Something in a turn. What a kind does not have, or what is not recorded, is None.

    `offset_s` is from the start of the session. `arguments` and `output` are those of a call, `model` the
    record of a model call.
    """

    kind: Kind
    name: str
    offset_s: float
    span_id: str | None
    agent: str | None = None
    status: Status | None = None
    latency_s: float | None = None
    arguments: Text | None = None
    output: Text | None = None
    model: LLMCall | None = None
    variables: tuple[Variable, ...] = ()
    errors: tuple[ShownProblem, ...] = ()
    approval: str | None = None


class TurnView(NamedTuple):
    """A turn as people read it; `hidden` is how many more items it has."""

    number: int
    offset_s: float
    latency_s: float | None
    failed: bool
    user_input: Text | None
    reply: Text | None
    items: tuple[ShownItem, ...]
    hidden: int
    errors: tuple[ShownProblem, ...]


class ShownConversation(NamedTuple):
    """The turns of a session, and what is in none of them."""

    turns: tuple[TurnView, ...]
    outside: tuple[ShownItem, ...]
    errors: tuple[ShownProblem, ...]


class _Timed(NamedTuple):
    """When an item started, and what makes it: most of a long turn's are not shown."""

    start_ns: int
    make: Callable[[], ShownItem]


def conversation(
    session: Session,
    changes: Sequence[StateChange] = (),
    *,
    longest: int = LONGEST,
    most_items: int = TextLimits().items,
    skip: int = 0,
) -> ShownConversation:
    """Return a session as a conversation.

    Texts are cut after `longest` characters, and turns after `most_items` items, from the item `skip` on.
    """
    made = session_items(session)
    origin_ns = origin_of(session)
    timed: dict[int | None, list[_Timed]] = {}
    for turn, start_ns, make in _own(session, changes, origin_ns, longest):
        timed.setdefault(turn, []).append(_Timed(start_ns, make))

    def in_order(turn: int | None, started: Iterable[Started]) -> list[_Timed]:
        listed = [_Timed(one.start_ns, partial(_item, one, origin_ns, longest)) for one in started]
        return sorted([*listed, *timed.pop(turn, ())], key=lambda one: one.start_ns)

    turns = []
    for of_turn in made.turns:
        items = in_order(of_turn.turn.turn, of_turn.items)
        turns.append(_turn(of_turn, items, skip, most_items, origin_ns, longest))
    outside = tuple(one.make() for one in in_order(None, made.outside)[:most_items])
    return ShownConversation(tuple(turns), outside, _problems(made.errors))


def origin_of(session: Session) -> int:
    """Return the time from which the offsets of a session are counted, in nanoseconds."""
    if session.start_ns is not None:
        return session.start_ns
    return min((turn.start_ns for turn in session.turns), default=0)


def _turn(
    of_turn: TurnItems,
    items: Sequence[_Timed],
    skip: int,
    most_items: int,
    origin_ns: int,
    longest: int,
) -> TurnView:
    turn = of_turn.turn
    shown = tuple(one.make() for one in items[skip : skip + most_items])
    return TurnView(
        turn.turn,
        _offset(turn.start_ns, origin_ns),
        turn.latency_s,
        turn.failed,
        _known(turn.user_input, Place("turns", turn.turn, "user_input"), longest),
        _known(turn.final_response, Place("turns", turn.turn, "final_response"), longest),
        shown,
        max(0, len(items) - skip - len(shown)),
        _problems(of_turn.errors),
    )


def _own(
    session: Session, changes: Sequence[StateChange], origin_ns: int, longest: int
) -> Iterable[tuple[int | None, int, Callable[[], ShownItem]]]:
    """Yield the requested calls and the changes of state, each with its turn and time."""
    for call in session.requested_calls:
        yield call.turn, call.start_ns, partial(_requested, call, origin_ns, longest)
    state: dict[str, tuple[Any, Text]] = {}
    for number, change in enumerate(changes):
        variables = []
        for name, value in change.variables.items():
            before = state.get(name)
            if before is None or not json_equal(before[0], value):
                after = text(value, Place("state", number, name), longest)
                variables.append(Variable(name, None if before is None else before[1], after))
                state[name] = value, after
        if variables:
            make = partial(_state, change, tuple(variables), origin_ns)
            yield _turn_at(session.turns, change.time_ns), change.time_ns, make


def _state(change: StateChange, variables: tuple[Variable, ...], origin_ns: int) -> ShownItem:
    return ShownItem(
        "state",
        ", ".join(variable.name for variable in variables),
        _offset(change.time_ns, origin_ns),
        change.span_id,
        variables=variables,
    )


def _turn_at(turns: Sequence[Turn], time_ns: int) -> int | None:
    """Return the turn that had begun last at a time; the first for what is earlier."""
    begun = [turn.turn for turn in turns if turn.start_ns <= time_ns]
    return begun[-1] if begun else next((turn.turn for turn in turns), None)


def _item(started: Started, origin_ns: int, longest: int) -> ShownItem:
    record = started.record
    errors = _problems(started.errors)
    offset_s = _offset(record.start_ns, origin_ns)
    if isinstance(record, Step):
        failed: Status | None = "failed" if errors else None
        return ShownItem("agent", record.name, offset_s, record.span_id, status=failed, errors=errors)
    if isinstance(record, LLMCall):
        return ShownItem(
            "model",
            record.model or "",
            offset_s,
            record.span_id,
            agent=record.agent,
            status="failed" if errors or record.unanswered else None,
            latency_s=record.latency_s,
            model=record,
            errors=errors,
        )
    statuses: dict[bool | None, Status] = {True: "ok", False: "failed", None: "unknown"}
    arguments, output = (
        text(value, Place("tool_interactions", record.position, field), longest) if known else None
        for value, known, field in (
            (record.input_arguments, record.arguments_known, "input_arguments"),
            (record.output, record.output_known, "output"),
        )
    )
    if record.ok is False and not errors and record.error:
        errors = (ShownProblem(f"tool {record.tool_name}", record.error, record.span_id),)
    return ShownItem(
        started.kind,
        record.tool_name,
        offset_s,
        record.span_id,
        agent=record.agent,
        status=statuses[record.ok],
        latency_s=record.latency_s,
        arguments=arguments,
        output=output,
        errors=errors,
        approval=record.approval,
    )


def _requested(call: RequestedCall, origin_ns: int, longest: int) -> ShownItem:
    known = call.input_arguments if call.arguments_known else None
    return ShownItem(
        "requested",
        call.tool_name,
        _offset(call.start_ns, origin_ns),
        call.span_id,
        agent=call.agent,
        status="unknown",
        arguments=_known(known, Place("requested_calls", call.position, "input_arguments"), longest),
    )


def _problems(errors: Iterable[Error]) -> tuple[ShownProblem, ...]:
    return tuple(ShownProblem(e.where, e.message or "without a message", e.span_id) for e in errors)


def _known(value: Any, place: Place, longest: int) -> Text | None:
    return None if value is None else text(value, place, longest)


def _offset(at_ns: int, origin_ns: int) -> float:
    return (at_ns - origin_ns) / 1e9
