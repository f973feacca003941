"""Expected arguments learned from several sessions: constants, references to known values, wildcards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from spangrade.converters.datasets.forms import RESULT, USER
from spangrade.evaluator.metrics.matching import ANY_TEXT, AnyOf, json_equal
from spangrade.evaluator.metrics.references import ANY_ITEM
from spangrade.evaluator.review.session_to_golden import looks_generated
from spangrade.evaluator.session import ToolInteraction

_MOST_LEAVES = 2_000  # of one result
_DISTINCTIVE = 6  # characters of a text that is hardly in a result by chance, if it has a digit too

Mask = Callable[[Any], Any]


class LearnedValue(NamedTuple):
    """A value learned from a number of sessions; `where` is its place in the question."""

    where: str
    rule: str
    sessions: int


class Seen(NamedTuple):
    """An actual call of a session, with the values that may explain its arguments."""

    call: ToolInteraction
    user_values: dict[str, str]
    earlier: Sequence[ToolInteraction]


def way_of(
    ways: Sequence[tuple[Sequence[ToolInteraction], dict[str, str]]], where: str, mask: Mask
) -> tuple[list[dict[str, Any]], list[LearnedValue]]:
    """Return the expected calls that sessions agree on, and the learned values.

    `ways` are the calls of each session, the same tools as often in each, and the values of its user's texts.
    Each call is compared with the other sessions' call of this tool that came as first, second and so on.
    """
    orders = [_numbered(calls) for calls, _ in ways]
    order = max(orders, key=orders.count)
    unordered = _unordered(orders)
    expected: list[dict[str, Any]] = []
    rules: list[LearnedValue] = []
    for position, key in enumerate(order):
        seen = []
        for (calls, values), names in zip(ways, orders, strict=True):
            at = names.index(key)
            seen.append(Seen(calls[at], values, calls[:at]))
        call: dict[str, Any] = {"tool_name": key[0]}
        at_call = f"{where}[{position}]"
        arguments = [one.call.input_arguments for one in seen]
        if all(isinstance(one, dict) for one in arguments):
            masked = [mask(one) for one in arguments]
            call["input_arguments"] = _expected(arguments, masked, seen, f"{at_call}.input_arguments", rules)
        if seen[0].call.ok is False:
            call["status"] = "error"
        if key in unordered:
            call["unordered"] = True
            rules.append(LearnedValue(at_call, "in any order with the unordered calls beside it", len(ways)))
        expected.append(call)
    return expected, rules


def _numbered(calls: Sequence[ToolInteraction]) -> list[tuple[str, bool, int]]:
    """Return the tool of each call, whether it failed, and its number among the calls of this kind."""
    counts: dict[tuple[str, bool], int] = {}
    keys = []
    for call in calls:
        kind = (call.tool_name, call.ok is False)
        counts[kind] = counts.get(kind, 0) + 1
        keys.append((*kind, counts[kind]))
    return keys


def _unordered(orders: Sequence[list[tuple[str, bool, int]]]) -> set[tuple[str, bool, int]]:
    """Return the calls that came before another call in one session and after it in another."""
    distinct = {tuple(order) for order in orders}
    places = [{key: place for place, key in enumerate(order)} for order in distinct]
    keys = orders[0]
    return {
        key
        for key in keys
        for other in keys
        if key != other and len({place[key] < place[other] for place in places}) > 1
    }


def _expected(
    values: Sequence[Any], masked: Sequence[Any], seen: Sequence[Seen], where: str, rules: list[LearnedValue]
) -> Any:
    """Return the expected value in place of those of several sessions; add learned values to `rules`.

    `masked` are the same values without personal data; one that differs from its own is never expected.
    """
    if all(isinstance(one, dict) for one in (*values, *masked)):
        made: dict[str, Any] = {}
        for key in dict.fromkeys(key for value in masked for key in value):
            place = f"{where}.{key}"
            if all(key in value for value in (*values, *masked)):
                inner = ([one[key] for one in values], [one[key] for one in masked])
                made[key] = _expected(*inner, seen, place, rules)
            else:
                made[key] = None
                rules.append(LearnedValue(place, "any value or none", len(values)))
        return made
    if all(isinstance(one, list) for one in (*values, *masked)) and len({len(one) for one in values}) == 1:
        return [
            _expected([one[at] for one in values], [one[at] for one in masked], seen, f"{where}[{at}]", rules)
            for at in range(len(values[0]))
        ]
    return _expected_scalar(values, masked, seen, where, rules)


def _expected_scalar(
    values: Sequence[Any], masked: Sequence[Any], seen: Sequence[Seen], where: str, rules: list[LearnedValue]
) -> Any:
    first = values[0]
    number = len(values)

    def learned(rule: str, expected: Any) -> Any:
        rules.append(LearnedValue(where, rule, number))
        return expected

    constant = all(json_equal(first, value) for value in values)
    personal = not all(map(json_equal, values, masked))
    if name := _user_value(values, seen):
        return learned(f"the user's {name}", {USER: name})
    is_weak = number == 1 and not (personal or _is_distinctive(first))
    if constant and not personal and (number > 1 or is_weak):
        if first is None:
            return learned("null", {"$null": True})
        if first == ANY_TEXT:
            return learned("any text", ANY_TEXT)
        return learned("always the same", first)
    if place := _result_value(values, seen):
        return learned(f"from the result {place}", {RESULT: place})
    if constant and not personal and not looks_generated(first):
        return learned("always the same", first)
    if all(isinstance(value, str) for value in values):
        return learned("any text", ANY_TEXT)
    return learned("any value", None)


def _is_distinctive(value: Any) -> bool:
    return isinstance(value, str) and len(value) >= _DISTINCTIVE and any(map(str.isdigit, value))


def _user_value(values: Sequence[Any], seen: Sequence[Seen]) -> str | None:
    """Return the name of the user's value that these are in every session."""
    for name in seen[0].user_values:
        if all(
            AnyOf((one.user_values[name],), text=True).accepts(value)
            for value, one in zip(values, seen, strict=True)
        ):
            return name
    return None


def _result_value(values: Sequence[Any], seen: Sequence[Seen]) -> str | None:
    """Return the place in earlier results at which these values are in every session, the latest call's."""
    common: dict[str, None] | None = None
    for value, one in zip(values, seen, strict=True):
        if value is None or isinstance(value, bool | dict | list) or value == "":
            return None
        places = dict.fromkeys(
            f"{call.tool_name}#{path}"
            for call in reversed(one.earlier)
            if call.output_known
            for path in _paths(call.output, value)
        )
        common = places if common is None else {place: None for place in common if place in places}
        if not common:
            return None
    return min(common or (), key=lambda place: place.count(ANY_ITEM), default=None)


def _paths(result: Any, value: Any) -> Iterator[str]:
    """Yield the paths at which a result has a value, then each with `*` in place of elements of lists."""
    found = [
        path for path, leaf in _leaves(result, ()) if not isinstance(leaf, bool) and json_equal(leaf, value)
    ]
    for path in found:
        yield _pointer(path)
    for path in found:
        if any(isinstance(part, int) for part in path):
            yield _pointer([ANY_ITEM if isinstance(part, int) else part for part in path])


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    stack: list[tuple[tuple[str | int, ...], Any]] = [(path, value)]
    count = 0
    while stack and count < _MOST_LEAVES:
        path, value = stack.pop()
        if isinstance(value, dict):
            stack += (((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            stack += (((*path, index), item) for index, item in enumerate(value))
        else:
            count += 1
            yield path, value


def _pointer(path: Sequence[str | int]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
