"""Which calls of a session meet which calls of a reference.

A hand-off counts only if the reference names its tool. A call that failed matches only a reference that says
`"status": "error"` or gives the `output`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, islice, permutations, product
from typing import Any, NamedTuple

from spangrade.converters.datasets.golden import GoldenQuestion, ReferenceToolInteraction
from spangrade.evaluator.metrics.causes import Repair, repairs
from spangrade.evaluator.metrics.masked import compared_arguments
from spangrade.evaluator.metrics.matching import (
    ArgumentMatcher,
    ValueDifference,
    differences,
    first_difference,
    is_copy,
    is_subsequence,
    maximum_matching,
    rules_of,
)
from spangrade.evaluator.metrics.references import lacks_result, refers, resolved, result_tools, user_values
from spangrade.evaluator.metrics.shown import path_text
from spangrade.evaluator.session import PlannedCall, RequestedCall, Session, ToolInteraction

_MOST_ORDERS = 120  # of unordered calls, that are compared with the calls that were made
_MOST_PAIRS = 2_500  # of expected and actual calls, whose references to results are compared after repairs
_MOST_ROUNDS = 5
_MOST_COMPARED = 20  # calls of a tool, of which the nearest to an expected one is looked for

_Match = Callable[[ReferenceToolInteraction, ToolInteraction], bool]
_Known = dict[tuple[int, int, ArgumentMatcher], bool | None]  # by the identities of calls


class Context(NamedTuple):
    """How arguments are compared: the values of the user's texts, and the calls that may be referred to.

    `limited` are the tools of which no further calls may be made, if only some are: calls of others are free.
    """

    matcher: ArgumentMatcher
    values: Mapping[str, str]
    calls: Sequence[ToolInteraction]
    limited: Collection[str] | None = None

    def before(self, call: ToolInteraction) -> list[ToolInteraction]:
        """Return the other calls that had begun when a call began."""
        return [other for other in self.calls if other is not call and other.start_ns <= call.start_ns]


class Pairing(NamedTuple):
    """A largest one-to-one matching of expected and actual calls; `equal` if it pairs all, in order."""

    expected: Sequence[ReferenceToolInteraction]
    actual: Sequence[ToolInteraction]
    match: _Match
    chosen: Sequence[int | None]
    equal: bool

    @property
    def matched(self) -> int:
        """The number of pairs."""
        return len(self.chosen) - list(self.chosen).count(None)


def compared_calls(session: Session, question: GoldenQuestion) -> list[ToolInteraction]:
    """Return the calls that are compared with a reference: hand-offs only if it names them."""
    calls = session.tool_interactions
    if not any(call.handoff for call in calls):
        return list(calls)
    named = {wanted.tool_name for accepted in question.accepted_calls for wanted in accepted}
    return [call for call in calls if not call.handoff or call.tool_name in named]


def as_call(call: RequestedCall) -> ToolInteraction:
    """Return a requested call as a call of which everything but the request is unknown."""
    return ToolInteraction(
        position=call.position,
        turn=call.turn,
        tool_name=call.tool_name,
        input_arguments=call.input_arguments,
        output=None,
        arguments_known=call.arguments_known,
        output_known=False,
        ok=None,
        error=None,
        call_id=call.call_id,
        agent=call.agent,
        handoff=False,
        latency_s=None,
        start_ns=call.start_ns,
        end_ns=call.start_ns,
        trace_id=call.trace_id,
        span_id=None,
        arguments_removed=call.arguments_removed,
    )


def pair_calls(
    expected: Sequence[ReferenceToolInteraction],
    actual: Sequence[ToolInteraction],
    values: Mapping[str, str],
) -> Sequence[int | None]:
    """Return the index of the call that meets each expected one, None where none does.

    `values` are those of the user's texts, by the names that expected arguments have for them.
    """
    context = Context("subset", values, actual)
    return pairing_of(expected, actual, lambda wanted, call: is_match(wanted, call, context) is True).chosen


class Repairs(NamedTuple):
    """The expected calls in an order that is accepted, and the repairs of calls to meet them in it."""

    expected: Sequence[ReferenceToolInteraction]
    repairs: list[Repair]


class CallPairings:
    """The calls of a session beside the lists of calls that a question accepts.

    Each list is paired once, and each call compared once with an expected one.
    """

    def __init__(self, session: Session, question: GoldenQuestion) -> None:
        self.of = session, question
        self.calls = compared_calls(session, question)
        self.values = user_values(session, question)
        self.lists = _compared_lists(question, self.calls)
        self._pairings: dict[tuple[int, ArgumentMatcher, bool], Pairing] = {}
        self._known: _Known = {}

    def context(self, matcher: ArgumentMatcher) -> Context:
        """Return how arguments are compared by a matcher."""
        limited = self.of[1].reference("no_further_calls")
        named = limited if isinstance(limited, list | tuple) else None
        return Context(matcher, self.values, self.calls, named)

    def match(
        self, expected: ReferenceToolInteraction, call: ToolInteraction, matcher: ArgumentMatcher = "subset"
    ) -> bool | None:
        """Return whether a call of the session meets one of the question's, as `is_match` does."""
        return _matches(expected, call, self.context(matcher), self._known)

    def pairing(
        self,
        expected: Sequence[ReferenceToolInteraction],
        matcher: ArgumentMatcher = "subset",
        *,
        at_best: bool = False,
    ) -> Pairing:
        """Return a largest matching of one of the lists and the calls.

        Calls that match only if what is not recorded of them does are paired with `at_best` alone.
        """
        key = id(expected), matcher, at_best
        found = self._pairings.get(key)
        if found is None:
            certain = self.pairing(expected, matcher) if at_best else None
            if certain is not None and certain.equal:
                found = certain
            else:
                context, known = self.context(matcher), self._known

                def match(wanted: ReferenceToolInteraction, call: ToolInteraction) -> bool:
                    # Without this object, which would keep a session in memory by a cycle.
                    found = _matches(wanted, call, context, known)
                    return at_best if found is None else found

                found = pairing_of(expected, self.calls, match)
            self._pairings[key] = found
        return found

    @cached_property
    def best_met(self) -> tuple[ReferenceToolInteraction, ...]:
        """The list, of those that the session is compared with, of which it made the most."""
        return self.lists[0] if len(self.lists) == 1 else min(self.lists, key=self._differing)

    def _differing(self, expected: Sequence[ReferenceToolInteraction]) -> int:
        missing = len(expected) - self.pairing(expected).matched
        return missing + abs(len(self.calls) - len(expected) + missing)


def _matches(
    expected: ReferenceToolInteraction, call: ToolInteraction, context: Context, known: _Known
) -> bool | None:
    """Return what is known of a call, or whether it matches, which is known from then on."""
    if expected.tool_name != call.tool_name:
        return False
    key = id(expected), id(call), context.matcher
    if key not in known:
        known[key] = is_match(expected, call, context)
    return known[key]


_LATEST: list[CallPairings] = []


def pairings_of(session: Session, question: GoldenQuestion) -> CallPairings:
    """Return the calls of a session beside those of a question: the metrics of a grade have the same one."""
    for latest in _LATEST:
        if latest.of[0] is session and latest.of[1] is question:
            return latest
    _LATEST[:] = [made := CallPairings(session, question)]
    return made


def _compared_lists(
    question: GoldenQuestion, made: Sequence[ToolInteraction]
) -> Sequence[tuple[ReferenceToolInteraction, ...]]:
    """Return the accepted lists of calls that name the most of a session's calls.

    So a list is compared whole: who makes a call that only a longer list has is not compared with a shorter
    one, which would leave that call free. Calls that failed do not choose a list.
    """
    lists = question.accepted_calls
    if len(lists) == 1:
        return lists
    called = Counter(call.tool_name for call in made if call.ok is not False)
    named = [(called & Counter(wanted.tool_name for wanted in calls)).total() for calls in lists]
    return [calls for calls, count in zip(lists, named, strict=True) if count == max(named)]


def best_met(session: Session, question: GoldenQuestion) -> tuple[ReferenceToolInteraction, ...]:
    """Return the list of calls, of those that a session is compared with, of which it made the most."""
    return pairings_of(session, question).best_met


def met_calls(session: Session, question: GoldenQuestion, *, at_best: bool = False) -> set[int]:
    """Return the positions of the calls that meet a reference call, and of failed calls before such a one.

    With `at_best`, a call also counts if only what is not recorded of it decides whether it meets one.
    """
    compared = pairings_of(session, question)
    calls, pairs = compared.calls, compared.pairing(compared.best_met, at_best=at_best).chosen
    paired = {place for place in pairs if place is not None}
    last = {calls[place].tool_name: place for place in sorted(paired)}
    return {
        call.position
        for place, call in enumerate(calls)
        if place in paired or (call.ok is False and place < last.get(call.tool_name, 0))
    }


def pairing_of(
    expected: Sequence[ReferenceToolInteraction], actual: Sequence[ToolInteraction], match: _Match
) -> Pairing:
    """Return a largest one-to-one matching of calls."""
    if len(expected) == len(actual) and (_are_copies(expected, actual) or all(map(match, expected, actual))):
        return Pairing(expected, actual, match, range(len(expected)), True)
    candidates = [[place for place, call in enumerate(actual) if match(wanted, call)] for wanted in expected]
    chosen = maximum_matching(candidates)
    equal = len(expected) == len(actual) and in_order(Pairing(expected, actual, match, chosen, False))
    return Pairing(expected, actual, match, chosen, equal)


def _are_copies(expected: Sequence[ReferenceToolInteraction], actual: Sequence[ToolInteraction]) -> bool:
    """Return whether as many calls are the expected ones in order and to the letter, each successful.

    They match by every matcher. Most sessions are found to match so, which is sooner than call by call.
    """
    for wanted, call in zip(expected, actual, strict=True):
        if (
            wanted.tool_name != call.tool_name
            or call.ok is not True
            or not call.arguments_known
            or wanted.output is not None
            or wanted.status is not None
        ):
            return False
    return is_copy([wanted.input_arguments for wanted in expected], [call.input_arguments for call in actual])


def is_match(expected: ReferenceToolInteraction, call: ToolInteraction, context: Context) -> bool | None:
    """Return whether a call matches; None if that depends on an unknown part of it."""
    if expected.tool_name != call.tool_name:
        return False
    arguments = _arguments_match(expected, call, context)
    result = False if arguments is False else result_matches(expected, call)
    return None if arguments is None and result else result


def _arguments_match(
    expected: ReferenceToolInteraction, call: ToolInteraction, context: Context
) -> bool | None:
    wanted, keys = expected.input_arguments, expected.match or context.matcher
    if wanted is None or keys == "ignore":
        return True
    if not call.arguments_known:
        return True if keys == "subset" and all(value is None for value in wanted.values()) else None
    resolvable = _resolved(wanted, call, context)
    return (
        None
        if resolvable is None
        else _is_met(first_difference(resolvable, compared_arguments(call), rules_of(keys)))
    )


def _is_met(difference: ValueDifference | None) -> bool | None:
    return difference is None or (None if difference.undecided else False)


def _resolved(wanted: dict[str, Any], call: ToolInteraction, context: Context) -> dict[str, Any] | None:
    """Return expected arguments without references; None if a result that they refer to is not recorded."""
    if not refers(wanted):
        return wanted
    earlier = context.before(call)
    tools = set(result_tools(wanted))
    if any(other.tool_name in tools and lacks_result(other) for other in earlier):
        return None
    made: dict[str, Any] = resolved(wanted, context.values, earlier)
    return made


def call_differences(
    expected: ReferenceToolInteraction, call: ToolInteraction, context: Context
) -> Iterator[tuple[str, ValueDifference]]:
    """Yield how the arguments and the result of a call of the expected tool differ, each with its place.

    The place is `look_up(items[0].sku)` for an argument, `look_up result.status` for a result.
    """
    name, keys = call.tool_name, expected.match or context.matcher
    if expected.input_arguments is not None and keys != "ignore" and call.arguments_known:
        wanted = _resolved(expected.input_arguments, call, context)
        if wanted is not None:
            for one in differences(wanted, compared_arguments(call), rules_of(keys)):
                yield f"{name}({path_text(one.path)})", one
    if expected.output is not None and call.output_known:
        for one in differences(expected.output, call.output):
            yield f"{name} {path_text(('result', *one.path))}", one


def nearest_calls(
    expected: Sequence[ReferenceToolInteraction],
    actual: Sequence[ToolInteraction],
    chosen: Sequence[int | None],
    context: Context,
) -> list[int | None]:
    """Return for each expected call that none meets the index of the call of its tool that is nearest to it.

    It has the fewest differences of the calls that meet no expected call; each call is used once.
    """
    free = [place for place in range(len(actual)) if place not in set(chosen)]
    nearest: list[int | None] = [None] * len(expected)
    for index, wanted in enumerate(expected):
        alike = [place for place in free if actual[place].tool_name == wanted.tool_name][:_MOST_COMPARED]
        if chosen[index] is None and alike:

            def distance(place: int, wanted: ReferenceToolInteraction = wanted) -> int:
                return sum(1 for _ in call_differences(wanted, actual[place], context))

            nearest[index] = place = alike[0] if len(alike) == 1 else min(alike, key=distance)
            free.remove(place)
    return nearest


def call_repairs(pairing: Pairing, context: Context, *, in_order: bool, further: bool) -> Repairs:
    """Return the expected calls in an order that is accepted, and what makes the calls meet them in it.

    See `repairs`. The order is that of the calls that meet them or, of some other orders of successive
    unordered ones, the first that needs the fewest repairs. What is expected of a call may refer to results:
    to those that are there after the repairs, where a call that is changed or moved keeps its result.
    """
    made = _fewest_repairs(pairing, context, in_order=in_order, further=further)
    if len(made.expected) * len(pairing.actual) > _MOST_PAIRS or not any(
        refers(one.input_arguments) for one in made.expected
    ):
        return made
    for _ in range(_MOST_ROUNDS):  # a call whose result a repair takes away is no longer referred to
        pairing = _both(pairing, _matches_after(made, pairing, context, in_order=in_order))
        before, made = made, _fewest_repairs(pairing, context, in_order=in_order, further=further)
        if made == before:
            break
    return made


def _both(pairing: Pairing, match: _Match) -> Pairing:
    """Return a pairing whose calls have to match in another way too."""
    return pairing._replace(match=lambda wanted, call: pairing.match(wanted, call) and match(wanted, call))


def _fewest_repairs(pairing: Pairing, context: Context, *, in_order: bool, further: bool) -> Repairs:
    def of(expected: Sequence[ReferenceToolInteraction]) -> Repairs:
        made = repairs(
            len(expected),
            len(pairing.actual),
            lambda e, a: pairing.match(expected[e], pairing.actual[a]),
            lambda e, a: _distance(expected[e], pairing.actual[a], context, further=further),
            in_order=in_order,
            further=further,
        )
        return Repairs(expected, made)

    orders = _orders(pairing) if in_order else [in_order_of(pairing)]
    return min(map(of, orders), key=lambda one: len(one.repairs))


def _matches_after(made: Repairs, pairing: Pairing, context: Context, *, in_order: bool) -> _Match:
    """Return whether a call would match an expected one after repairs.

    In order a repaired call is where it is expected, else where it was.
    """
    (expected, found), actual = made, pairing.actual
    places = {id(one): place for place, one in enumerate(expected)}
    repaired = {id(actual[one.actual]): one.expected for one in found if one.actual is not None}

    def matches(wanted: ReferenceToolInteraction, call: ToolInteraction) -> bool:
        calls = [other for other in context.calls if id(other) not in repaired]
        for one in found:
            if one.actual is None or one.expected is None:
                continue
            changed = actual[one.actual]._replace(tool_name=expected[one.expected].tool_name)
            if not in_order:
                calls.append(changed)
            elif one.expected < places[id(wanted)]:
                calls.append(changed._replace(start_ns=call.start_ns))
        return is_match(wanted, call, context._replace(calls=calls)) is True

    return matches


def _orders(pairing: Pairing) -> Iterator[list[ReferenceToolInteraction]]:
    """Yield orders of the expected calls that are accepted, at most `_MOST_ORDERS`."""
    blocks = [list(block) for block in _blocks(in_order_of(pairing))]
    orders = [list(islice(permutations(block), _MOST_ORDERS)) for block in blocks]
    for chosen in islice(product(*orders), _MOST_ORDERS):
        yield [call for block in chosen for call in block]


def _distance(
    expected: ReferenceToolInteraction, call: ToolInteraction, context: Context, *, further: bool
) -> int | None:
    """Return how far a call is from an expected one that it does not meet, in the sense of `repairs`.

    A call of the same tool is nearer the fewer values differ (a failure counts as one); a call of another
    tool with the same arguments comes next. Any other call stands for it only where no `further` calls are
    allowed, and a call that is free never does.
    """
    if expected.tool_name == call.tool_name:
        differing = sum(1 for _ in islice(call_differences(expected, call, context), 7))
        failed = call.ok is False and expected.status != "error"
        return (22 if further else 12) + min(differing + failed, 7)
    if not further and context.limited is not None and call.tool_name not in context.limited:
        return None
    wanted = expected.input_arguments
    if call.arguments_known and (wanted or wanted == call.input_arguments):
        renamed = call._replace(tool_name=expected.tool_name, ok=True, error=None, approval=None)
        if _arguments_match(expected, renamed, context):
            return 24 if further else 19
    return 36 if further else None


def in_order_of(pairing: Pairing) -> list[ReferenceToolInteraction]:
    """Return the expected calls, successive unordered ones in the order of the calls that meet them."""
    chosen = dict(zip(map(id, pairing.expected), pairing.chosen, strict=True))
    last = len(pairing.actual)

    def place(call: ReferenceToolInteraction) -> int:
        found = chosen[id(call)]
        return last if found is None else found

    return [call for block in _blocks(pairing.expected) for call in sorted(block, key=place)]


def result_matches(expected: ReferenceToolInteraction, call: ToolInteraction) -> bool | None:
    """Return whether a call ended as expected; None if that depends on a part that is not recorded.

    A call that waits for approval may still do so; one that was rejected did not run.
    """
    if not call.ran:
        return None if call.approval == "asked" else False
    if expected.output is not None:
        if not call.output_known:
            return None
        met = _is_met(first_difference(expected.output, call.output))
        if met is not True or expected.status is None:
            return met
    if expected.status is not None:
        return None if call.ok is None else call.ok is (expected.status == "ok")
    if isinstance(call, PlannedCall):
        return True
    only_requested = call.ok is None and not call.output_known and call.span_id is None
    return None if only_requested else call.ok is not False


def in_order(pairing: Pairing) -> bool:
    """Return whether the expected calls were made in order, successive unordered ones in any order.

    Each block of calls takes the shortest part of what is left: that leaves the most for the rest.
    """
    expected, actual, match = pairing.expected, pairing.actual, pairing.match
    if not any(call.unordered for call in expected):
        return is_subsequence(expected, actual, match)
    start = 0
    for block in _blocks(expected):
        candidates: list[list[int]] = [[] for _ in block]
        while None in maximum_matching(candidates):
            if start == len(actual):
                return False
            for wanted, places in zip(block, candidates, strict=True):
                if match(wanted, actual[start]):
                    places.append(start)
            start += 1
    return True


def _blocks(expected: Sequence[ReferenceToolInteraction]) -> Iterator[Sequence[ReferenceToolInteraction]]:
    """Yield calls in their order, successive unordered ones together."""
    for unordered, calls in groupby(expected, key=lambda call: call.unordered):
        if unordered:
            yield list(calls)
        else:
            yield from ([call] for call in calls)
