"""What started in each turn of a session, in order, with the errors that happened in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from spangrade.evaluator.session import Error, LLMCall, Session, Step, ToolInteraction, Turn

Kind = Literal["agent", "model", "tool", "hand-off"]
_Place = tuple[str, str | None, str]  # trace id, span id, and what failed as `Error.where` names it


class Item(NamedTuple):
    """An agent, a model call or a tool call that started, and the errors in it."""

    kind: Kind
    record: Step | LLMCall | ToolInteraction
    errors: tuple[Error, ...] = ()

    @property
    def start_ns(self) -> int:
        """When it started."""
        return self.record.start_ns


class TurnItems(NamedTuple):
    """A turn, what started in it, and the errors of its traces that happened in none of its items."""

    turn: Turn
    items: tuple[Item, ...]
    errors: tuple[Error, ...]


class SessionItems(NamedTuple):
    """The turns of a session, the items outside of them, and the errors outside of both."""

    turns: tuple[TurnItems, ...]
    outside: tuple[Item, ...]
    errors: tuple[Error, ...]


def session_items(s: Session) -> SessionItems:
    """Return what started in a session, turn by turn; each error is listed once."""
    by_turn = _by_turn(s)
    places = {_place(item.record) for items in by_turn.values() for item in items}
    at_place: dict[_Place, list[Error]] = {}
    by_trace: dict[str, list[Error]] = {}
    for error in s.errors:
        place = (error.trace_id, error.span_id, error.where)
        if place in places:
            at_place.setdefault(place, []).append(error)
        else:
            by_trace.setdefault(error.trace_id, []).append(error)

    def with_errors(items: Iterable[Item]) -> tuple[Item, ...]:
        return tuple(item._replace(errors=tuple(at_place.pop(_place(item.record), ()))) for item in items)

    turns = tuple(
        TurnItems(
            turn,
            with_errors(by_turn.pop(turn.turn, ())),
            tuple(error for trace_id in turn.trace_ids for error in by_trace.pop(trace_id, ())),
        )
        for turn in s.turns
    )
    outside = with_errors(item for items in by_turn.values() for item in items)
    return SessionItems(turns, outside, tuple(error for errors in by_trace.values() for error in errors))


def _by_turn(s: Session) -> dict[int | None, Sequence[Item]]:
    agents = (Item("agent", step) for step in s.trajectory if step.kind == "agent")
    models = (Item("model", call) for call in s.llm_calls)
    tools = (Item("hand-off" if call.handoff else "tool", call) for call in s.tool_interactions)
    by_turn: dict[int | None, list[Item]] = {}
    for item in (*agents, *models, *tools):
        by_turn.setdefault(item.record.turn, []).append(item)
    return {turn: sorted(items, key=lambda item: item.start_ns) for turn, items in by_turn.items()}


def _place(record: Step | LLMCall | ToolInteraction) -> _Place:
    if isinstance(record, Step):
        where = f"agent {record.name}"
    elif isinstance(record, LLMCall):
        where = f"llm {record.model}"
    else:
        where = f"tool {record.tool_name}"
    return record.trace_id, record.span_id, where
