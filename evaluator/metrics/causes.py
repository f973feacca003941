"""Causes of a failed gate: the span that differs or, where one was due, the place between two; the path.

For gates by rules over calls, steps, state and texts the causes are minimal: the gate passes if all of them
are repaired, and fails if one is not. `repairs` finds those of a list of calls or steps: what would have to
be changed, moved, left out or added in it, compared with the list that is expected.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spangrade.evaluator.metrics.matching import maximum_matching
from spangrade.evaluator.session import LLMCall, Session, Step, ToolInteraction

_MOST_SHOWN = 3  # causes in a line
_MISSING = 20  # the cost of an item that is due
_BY_NAME = ("trajectory", "agent_routing")  # what begins the names of gates that compare names
_MOST_COMPARED = 40_000  # pairs of items


class Cause(NamedTuple):
    """The cause of a failed gate: a span, or the place `after` one and `before` another where one was due.

    `path` names what differs: `issue_refund(amount)`, a tool, an agent, a state variable, `turns[2]`.
    """

    span: str | None = None
    path: str = ""
    after: str | None = None
    before: str | None = None


Evidence = str | Cause  # the id of a span stands for the span without a path


class Repair(NamedTuple):
    """A change that brings a list of items closer to the expected list.

    With both indices the `actual` item has to become the `expected` one (or, if `moved`, be in its place),
    with `actual` alone be left out, with `expected` alone be added: between the items `after` and `before`.
    """

    expected: int | None
    actual: int | None
    after: int | None = None
    before: int | None = None
    moved: bool = False


def span_ids(evidence: Iterable[Evidence]) -> tuple[str, ...]:
    """Return the ids of the spans that evidence names, each once, also of those beside an empty place."""
    spans: dict[str, None] = {}
    for one in evidence:
        named = (one,) if isinstance(one, str) else (one.span, one.after, one.before)
        spans.update((span, None) for span in named if span is not None)
    return tuple(spans)


def place_json(one: Evidence) -> str | dict[str, str | None]:
    """Return where a cause is, as in `sessions.jsonl`: a span's id, or those before and after the place."""
    if isinstance(one, str):
        return one
    return one.span if one.span is not None else {"after": one.after, "before": one.before}


def path_of(one: Evidence) -> str:
    """Return the path of a cause, empty if none is known."""
    return "" if isinstance(one, str) else one.path


def stored_json(one: Evidence) -> Any:
    """Return a cause as in `scores.evidence`: its place, with its path if it has one."""
    if isinstance(one, str) or not one.path:
        return place_json(one)
    place = place_json(one)
    return {"span": place, "path": one.path} if isinstance(place, str) else {**place, "path": one.path}


class WhatRan(NamedTuple):
    """Where a span is in its conversation: what ran there, in which turn, None outside of the turns."""

    name: str
    turn: int | None

    def __str__(self) -> str:
        return self.name if self.turn is None else f"{self.name} in turn {self.turn}"


def span_places(session: Session) -> dict[str, WhatRan]:
    """Return where the steps and calls of a session are, by their spans."""
    steps = ((one.span_id, one.name, one.turn) for one in session.trajectory)
    models = ((one.span_id, one.model or "the model", one.turn) for one in session.llm_calls)
    calls = ((one.span_id, one.tool_name, one.turn) for one in session.tool_interactions)
    return {span: WhatRan(name, turn) for span, name, turn in (*steps, *models, *calls) if span is not None}


def cause_text(one: Evidence, places: Mapping[str, WhatRan] | None = None) -> str:
    """Return a cause for people: `issue_refund(amount) at span 0af7`, `look_up due after span 0af7`.

    With `places` a span is what ran there: `issue_refund(amount) in turn 2`, `due after look_up in turn 1`.
    """
    path = path_of(one)

    def at(side: str, span: str) -> str:
        if places is None:
            return f"{side} span {span}"
        place = places.get(span)
        if place is None:
            return ""
        if side == "at" and path.partition("(")[0] == place.name:
            return "" if place.turn is None else f"in turn {place.turn}"
        return f"{side} {place}"

    if isinstance(one, str) or one.span is not None:
        where = at("at", one if isinstance(one, str) else one.span or "")
    elif one.after is None and one.before is None:
        where = "missing" if path else ""
    else:
        sides = (("after", one.after), ("before", one.before))
        where = ", ".join(filter(None, (at(side, span) for side, span in sides if span is not None)))
        where = f"due {where}" if where else "missing"
    return " ".join(filter(None, (path, where)))


def causes_text(evidence: Sequence[Evidence]) -> str:
    """Return the first causes for people, and the number of the others."""
    rest = len(evidence) - _MOST_SHOWN
    return "; ".join(map(cause_text, evidence[:_MOST_SHOWN])) + (f" and {rest} more" if rest > 0 else "")


def reply_cause(session: Session, turn: int | None, path: str) -> Cause:
    """Return the place of a turn's reply: the model call that began last in it, else its last agent.

    Without a turn it is the last one. If neither is recorded, it is the place after the turn's last span.
    """
    if turn is None:
        turn = session.turns[-1].turn if session.turns else 1
    span = _reply_spans(session).get(turn)
    return due_in_turn(session, turn, path) if span is None else Cause(span, path)


_LATEST: list[tuple[Session, Mapping[int | None, str]]] = []


def _reply_spans(session: Session) -> Mapping[int | None, str]:
    """Return the spans of a session's replies by turn: read once for all turns of the session at hand."""
    for latest, spans in _LATEST:
        if latest is session:
            return spans
    found: dict[int | None, str] = {}
    for step in session.trajectory:
        if step.kind == "agent" and step.span_id is not None:
            found[step.turn] = step.span_id
    for call in sorted(session.llm_calls, key=lambda call: call.start_ns):
        found[call.turn] = call.span_id
    _LATEST[:] = [(session, found)]
    return found


def reply_evidence(session: Session, turn: int | None = None) -> tuple[Cause, ...]:
    """Return the place of a turn's reply, of the last one without a turn, as evidence."""
    number = turn or (session.turns[-1].turn if session.turns else 1)
    return (reply_cause(session, number, f"turns[{number}].reply"),)


def turn_cause(session: Session, turn: int, path: str) -> Cause:
    """Return a turn by its first span; if none is recorded, by the place where it is."""
    spans = _spans(session, lambda number: number == turn)
    return Cause(spans[0], path) if spans else due_in_turn(session, turn, path)


def due_in_turn(session: Session, turn: int, path: str) -> Cause:
    """Return the place after the spans of a turn, and of those before it."""
    earlier = _spans(session, lambda number: number <= turn)
    later = _spans(session, lambda number: number > turn)
    return Cause(None, path, earlier[-1] if earlier else None, later[0] if later else None)


def due_before_turn(session: Session, turn: int, path: str) -> Cause:
    """Return the place before a turn, after those before it."""
    return due_in_turn(session, turn - 1, path)


def _spans(session: Session, of_turn: Callable[[int], bool]) -> list[str]:
    """Return the spans of some turns by their start, an agent's before those inside it."""
    records: list[Step | ToolInteraction | LLMCall] = [
        *session.trajectory,
        *session.tool_interactions,
        *session.llm_calls,
    ]
    found = [
        (one.start_ns, number, one.span_id)
        for number, one in enumerate(records)
        if one.span_id is not None and of_turn(one.turn or 1)
    ]
    return [span for _, _, span in sorted(found)]


def call_spans(session: Session, calls: Sequence[ToolInteraction | Step]) -> list[str | None]:
    """Return the span of each call or step; of a call that only messages record, of the model call.

    That is the last of its turn that had ended when the call was requested.
    """
    spans = [one.span_id for one in calls]
    if None not in spans:
        return spans
    models: dict[int | None, list[LLMCall]] = {}
    for model in sorted(session.llm_calls, key=lambda call: call.end_ns):
        models.setdefault(model.turn, []).append(model)
    for place, one in enumerate(calls):
        is_call = isinstance(one, ToolInteraction) or one.kind == "tool"
        if one.span_id is None and is_call and (of_turn := models.get(one.turn)):
            ended = bisect_right(of_turn, one.start_ns, key=lambda call: call.end_ns)
            spans[place] = of_turn[max(ended - 1, 0)].span_id
    return spans


def spans_of_repairs(
    found: Iterable[Repair], spans: Sequence[str | None], path: Callable[[Repair], str]
) -> tuple[Cause, ...]:
    """Return repairs as causes, given the spans of the actual items; one that is not recorded is a place."""

    def span(index: int | None) -> str | None:
        return None if index is None else spans[index]

    causes = []
    for one in found:
        if (own := span(one.actual)) is not None:
            causes.append(Cause(own, path(one)))
            continue
        after, before = one.after, one.before
        if one.actual is not None:
            after, before = one.actual - 1, one.actual + 1
        earlier = spans[: 0 if after is None else after + 1]
        later = spans[len(spans) if before is None else before :]
        left = next((one for one in reversed(earlier) if one is not None), None)
        right = next((one for one in later if one is not None), None)
        if left is not None and left == right:  # one model call requested both
            causes.append(Cause(left, path(one)))
        else:
            causes.append(Cause(None, path(one), left, right))
    return tuple(causes)


def repairs(
    expected: int,
    actual: int,
    match: Callable[[int, int], bool],
    unlike: Callable[[int, int], int | None],
    *,
    in_order: bool,
    further: bool,
    fits: Callable[[int, int], bool] = lambda _e, _a: True,
) -> list[Repair]:
    """Return the repairs that make a list of items meet the expected one, in the order of the items.

    `match` says whether an item meets an expected one, `unlike` how far an item is from it: less than 20 if
    it rather stands for the expected one than that this is missing, with `further` less than 40; None for
    never. `in_order` asks for the expected order, `further` for no other items. If several ways are equal,
    the one whose matches `fits` counts, then the first.
    """
    aligned = _aligned(expected, actual, match, unlike, fits, further=further)
    pairs = {e: a for e, a, _ in aligned}
    met = {e: a for e, a, is_met in aligned if is_met}
    stands_in = {e: a for e, a in pairs.items() if e not in met}
    moved: dict[int, int] = {}
    if in_order:
        free = [a for a in range(actual) if a not in pairs.values()]
        for e in range(expected):
            if e not in pairs and (a := next((a for a in free if match(e, a)), None)) is not None:
                moved[e] = a
                free.remove(a)
    else:
        met = _enlarged(met, expected, actual, match)
        stands_in = {e: a for e, a in stands_in.items() if e not in met and a not in met.values()}
    taken = {*met.values(), *stands_in.values(), *moved.values()}
    for e in range(expected):
        if e not in met and e not in stands_in and e not in moved:
            near = [(cost, a) for a in range(actual) if a not in taken and (cost := unlike(e, a)) is not None]
            if near and min(near)[0] < _MISSING + 10:
                stands_in[e] = min(near)[1]
                taken.add(min(near)[1])
    found = [Repair(e, a) for e, a in stands_in.items()]
    found += [Repair(e, a, moved=True) for e, a in moved.items()]
    for e in range(expected):
        if e not in met and e not in stands_in and e not in moved:
            after = max((pairs[other] for other in pairs if other < e), default=None)
            before = min((pairs[other] for other in pairs if other > e), default=None)
            found.append(Repair(e, None, after, before))
    if further:
        found += [Repair(None, a) for a in range(actual) if a not in taken]
    return sorted(found, key=lambda one: _position(one, actual))


def _position(repair: Repair, actual: int) -> tuple[float, int]:
    """Return where a repair is in the list of items."""
    if repair.actual is not None:
        return repair.actual, 0
    if repair.after is not None:
        return repair.after + 0.5, repair.expected or 0
    return (actual if repair.before is None else repair.before) - 0.5, repair.expected or 0


def _aligned(
    expected: int,
    actual: int,
    match: Callable[[int, int], bool],
    unlike: Callable[[int, int], int | None],
    fits: Callable[[int, int], bool],
    *,
    further: bool,
) -> list[tuple[int, int, bool]]:
    """Return the pairs of items at the least cost, in both orders, and whether each is met."""

    def same(e: int, a: int) -> bool:
        return match(e, a) and fits(e, a)

    start = 0
    while start < min(expected, actual) and same(start, start):
        start += 1
    end = 0
    while end < min(expected, actual) - start and same(expected - 1 - end, actual - 1 - end):
        end += 1
    rows, columns = expected - start - end, actual - start - end
    found = [(place, place, True) for place in range(start)]
    if rows and columns:
        middle = (
            _cheapest(
                rows,
                columns,
                lambda e, a: match(start + e, start + a),
                lambda e, a: unlike(start + e, start + a),
                lambda e, a: fits(start + e, start + a),
                _MISSING if further else 0,
            )
            if rows * columns <= _MOST_COMPARED
            else _first_found(rows, columns, lambda e, a: match(start + e, start + a))
        )
        found += [(start + e, start + a, is_met) for e, a, is_met in middle]
    return found + [(expected - place, actual - place, True) for place in range(end, 0, -1)]


def _first_found(
    rows: int, columns: int, match: Callable[[int, int], bool]
) -> Iterator[tuple[int, int, bool]]:
    """Yield the pairs of a long list: each expected item with the next that meets it."""
    a = 0
    for e in range(rows):
        place = next((one for one in range(a, columns) if match(e, one)), None)
        if place is not None:
            yield e, place, True
            a = place + 1


def _cheapest(
    rows: int,
    columns: int,
    match: Callable[[int, int], bool],
    unlike: Callable[[int, int], int | None],
    fits: Callable[[int, int], bool],
    extra: int,
) -> Iterator[tuple[int, int, bool]]:
    """Yield the pairs of the cheapest alignment (Needleman and Wunsch 1970); of equal ones the first."""
    met = [[match(e, a) for a in range(columns)] for e in range(rows)]
    costs: list[list[float | None]] = [
        [(0 if fits(e, a) else 0.01) if met[e][a] else unlike(e, a) for a in range(columns)]
        for e in range(rows)
    ]
    rest = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for e in range(rows, -1, -1):
        for a in range(columns, -1, -1):
            ways = []
            if e < rows:
                ways.append(rest[e + 1][a] + _MISSING)
            if a < columns:
                ways.append(rest[e][a + 1] + extra)
            if e < rows and a < columns and (cost := costs[e][a]) is not None:
                ways.append(rest[e + 1][a + 1] + cost)
            rest[e][a] = min(ways, default=0)
    e = a = 0
    while e < rows and a < columns:
        cost = costs[e][a]
        if cost is not None and rest[e][a] == rest[e + 1][a + 1] + cost:
            yield e, a, met[e][a]
            e, a = e + 1, a + 1
        elif rest[e][a] == rest[e][a + 1] + extra:
            a += 1
        else:
            e += 1


def _enlarged(
    met: dict[int, int], expected: int, actual: int, match: Callable[[int, int], bool]
) -> dict[int, int]:
    """Return a largest one-to-one matching that has all items of a smaller one."""
    if len(met) == min(expected, actual):
        return met
    rows = [*met, *(e for e in range(expected) if e not in met)]
    candidates = [
        [*([met[e]] if e in met else []), *(a for a in range(actual) if a != met.get(e) and match(e, a))]
        for e in rows
    ]
    return {e: a for e, a in zip(rows, maximum_matching(candidates), strict=True) if a is not None}


def leading_causes(failed: Iterable[tuple[str, Iterable[Evidence]]]) -> tuple[Evidence, ...]:
    """Return the evidence of failed gates, given by name: each place once, the most telling first.

    A gate that compares calls says more than one that compares names.
    """
    places: dict[object, Evidence] = {}
    for _, evidence in sorted(failed, key=lambda gate: gate[0].startswith(_BY_NAME)):
        for one in evidence:
            place = place_json(one)
            places.setdefault(place if isinstance(place, str) else (*place.values(), path_of(one)), one)
    return tuple(places.values())
