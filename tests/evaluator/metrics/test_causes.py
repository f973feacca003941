"""The causes of a failed gate: minimal, by rules over calls, steps, state and texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import pytest
from builders import SECOND_NS, llm, question, session, step, tool
from grading import run_metric
from hypothesis import assume, given
from hypothesis import strategies as st

from spangrade.converters.datasets.golden import GoldenQuestion, ReferenceToolInteraction
from spangrade.evaluator.metrics import Score, parse_metric
from spangrade.evaluator.metrics.causes import (
    Cause,
    Evidence,
    Repair,
    WhatRan,
    cause_text,
    leading_causes,
    repairs,
)
from spangrade.evaluator.metrics.pairing import (
    Context,
    call_repairs,
    compared_calls,
    is_match,
    pairing_of,
    pairings_of,
)
from spangrade.evaluator.session import Session, ToolInteraction

T = TypeVar("T")
Item = tuple[str, int]  # a tool and its argument
ITEMS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1)), max_size=5)


class Rule(NamedTuple):
    """What lowers the value of a metric of a list: another order, further items, missing ones."""

    in_order: bool
    further: bool


CALLS = {
    "tools:exact": Rule(in_order=True, further=True),
    "tools:in_order": Rule(in_order=True, further=False),
    "tools:any_order": Rule(in_order=False, further=False),
    "tool_usage_accuracy": Rule(in_order=False, further=False),
}
STEPS = {
    "trajectory:exact": Rule(in_order=True, further=True),
    "trajectory_accuracy": Rule(in_order=True, further=True),
    "trajectory:in_order": Rule(in_order=True, further=False),
    "trajectory:any_order": Rule(in_order=False, further=False),
}


def failed(metric: str, made: Session, asked: GoldenQuestion) -> tuple[Evidence, ...]:
    """Return the causes of a failed gate, none if it passed."""
    outcome = run_metric(parse_metric(metric), made, asked)
    assert isinstance(outcome, Score)
    assert outcome.passed or outcome.evidence
    return () if outcome.passed else outcome.evidence


def calls_of(items: Sequence[Item]) -> list[ToolInteraction]:
    """Return calls one after another, each with a span of its own."""
    return [
        tool(
            name,
            {"x": x},
            span_id=f"{place}",
            start_ns=place * SECOND_NS,
            end_ns=place * SECOND_NS + 1,
            position=place,
        )
        for place, (name, x) in enumerate(items)
    ]


def accepting(lists: Sequence[Sequence[Item]]) -> GoldenQuestion:
    """Return a question that accepts any of some lists of calls."""
    first, *others = [
        [{"tool_name": name, "input_arguments": {"x": x}} for name, x in items] for items in lists
    ]
    return question(
        reference_tool_interactions=first, **({"reference_tool_alternatives": others} if others else {})
    )


def items_of(calls: Sequence[ReferenceToolInteraction]) -> list[Item]:
    """Return expected calls as items."""
    return [(call.tool_name, (call.input_arguments or {})["x"]) for call in calls]


def repaired(
    expected: Sequence[T],
    actual: Sequence[T],
    found: Sequence[Repair],
    chosen: Collection[Repair],
    *,
    in_order: bool,
    match: Callable[[int, int], bool] | None = None,
    is_early: Callable[[T], bool] = lambda _: False,
) -> list[T]:
    """Return a list of items after some of its repairs.

    An item is due after the last expected before it or, if it is to be early, before the first after it.
    """
    meets = match or (lambda e, a: expected[e] == actual[a])
    touched = {one.actual: None if one.moved else one.expected for one in found}
    changed = {one.actual for one in chosen}
    due = [e for e in range(len(expected)) if e not in {one.expected for one in found}]
    made: list[tuple[int | None, T]] = []  # with the index of the expected item that each one is
    for a, item in enumerate(actual):
        if a in changed:
            continue
        possible = due[:1] if in_order else due
        met = touched[a] if a in touched else next((e for e in possible if meets(e, a)), None)
        if met in due:
            due.remove(met)
        made.append((met, item))
    for one in sorted((one for one in chosen if one.expected is not None), key=lambda one: one.expected or 0):
        due_at, item = one.expected or 0, expected[one.expected or 0]
        if is_early(item):
            places = (p for p, (e, _) in enumerate(made) if e is not None and e > due_at)
            place = min(places, default=len(made))
        else:
            place = max((p for p, (e, _) in enumerate(made, 1) if e is not None and e < due_at), default=0)
        made.insert(place, (due_at, item))
    return [item for _, item in made]


def assert_minimal(
    found: Sequence[Repair], fails: Callable[[Sequence[Repair]], object], causes: Sequence[Evidence]
) -> None:
    """Fail unless the gate passes with all repairs and fails without any one of them."""
    assert len(causes) == len(found)
    assert not fails(found)
    for one in found:
        assert fails([other for other in found if other is not one])


@pytest.mark.parametrize("metric", CALLS)
@given(expected=ITEMS, actual=ITEMS)
def test_causes_of_gates_over_calls_are_minimal(
    metric: str, expected: list[Item], actual: list[Item]
) -> None:
    asked = question(tools=[(name, {"x": x}) for name, x in expected])
    made = calls_of(actual)
    causes = failed(metric, session([("hi", made)]), asked)
    if causes:
        rule, context = CALLS[metric], Context("subset", {}, made)
        wanted = asked.accepted_calls[0]
        pairing = pairing_of(wanted, made, lambda one, call: is_match(one, call, context) is True)
        further = rule.further or not expected
        _, found = call_repairs(pairing, context, in_order=rule.in_order, further=further)

        def fails(chosen: Sequence[Repair]) -> object:
            items = repaired(expected, actual, found, chosen, in_order=rule.in_order)
            return failed(metric, session([("hi", calls_of(items))]), asked)

        assert_minimal(found, fails, causes)


@pytest.mark.parametrize("metric", CALLS)
@given(lists=st.lists(ITEMS.filter(bool), min_size=2, max_size=3), actual=ITEMS)
def test_causes_are_minimal_among_the_lists_of_calls_that_a_session_meets_best(
    metric: str, lists: list[list[Item]], actual: list[Item]
) -> None:
    asked = accepting(lists)
    made = calls_of(actual)
    of = session([("hi", made)])
    causes = failed(metric, of, asked)
    if causes:
        outcomes = {
            tuple(items): run_metric(parse_metric(metric), of, accepting([items]))
            for items in map(items_of, pairings_of(of, asked).lists)
        }
        scores = {items: one for items, one in outcomes.items() if isinstance(one, Score)}
        met = max(one.value for one in scores.values())
        best_met = [items for items, one in scores.items() if one.value == met]
        best = next(items for items in best_met if scores[items].evidence == causes)
        wanted, context = accepting([best]).accepted_calls[0], Context("subset", {}, made)
        rule = CALLS[metric]
        pairing = pairing_of(wanted, made, lambda one, call: is_match(one, call, context) is True)
        _, found = call_repairs(pairing, context, in_order=rule.in_order, further=rule.further)

        def fails(chosen: Sequence[Repair]) -> object:
            again = session([("hi", calls_of(repaired(best, actual, found, chosen, in_order=rule.in_order)))])
            return all(failed(metric, again, accepting([items])) for items in best_met)

        assert_minimal(found, fails, causes)


@pytest.mark.parametrize("metric", CALLS)
@given(
    expected=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 1), st.booleans()), min_size=1, max_size=5
    ),
    actual=ITEMS,
)
def test_causes_among_unordered_calls_are_minimal(
    metric: str, expected: list[tuple[str, int, bool]], actual: list[Item]
) -> None:
    asked = question(
        reference_tool_interactions=[
            {"tool_name": name, "input_arguments": {"x": x}, "unordered": unordered}
            for name, x, unordered in expected
        ]
    )
    made = calls_of(actual)
    causes = failed(metric, session([("hi", made)]), asked)
    if causes:
        rule, context = CALLS[metric], Context("subset", {}, made)
        wanted = asked.accepted_calls[0]
        pairing = pairing_of(wanted, made, lambda one, call: is_match(one, call, context) is True)
        order, found = call_repairs(pairing, context, in_order=rule.in_order, further=rule.further)
        ordered = items_of(order)

        def fails(chosen: Sequence[Repair]) -> object:
            items = repaired(ordered, actual, found, chosen, in_order=rule.in_order)
            return failed(metric, session([("hi", calls_of(items))]), asked)

        assert_minimal(found, fails, causes)


class Referring(NamedTuple):
    """A call of `find`, with its argument and the id in its result, or of `pay`, which is given an id."""

    name: str
    given: int | None  # None: the id in the result of an earlier `find`
    found: int | None = None

    def made(self, place: int) -> ToolInteraction:
        """Return it as a call."""
        is_find = self.name == "find"
        return tool(
            self.name,
            {"q" if is_find else "id": self.given},
            output={"id": self.found} if is_find else "paid",
            output_known=True,
            span_id=f"{place}",
            start_ns=place * SECOND_NS,
            end_ns=place * SECOND_NS + 1,
            position=place,
        )

    def wanted(self) -> dict[str, Any]:
        """Return it as an expected call."""
        given = {"$result": "find#/id"} if self.given is None else self.given
        return {"tool_name": self.name, "input_arguments": {"q" if self.name == "find" else "id": given}}


SMALL = st.integers(0, 2)
PAID = st.builds(Referring, st.just("pay"), SMALL, st.none())
FOUND = st.builds(Referring, st.just("find"), SMALL, SMALL)
REFERRING = st.lists(st.one_of(FOUND, st.just(Referring("pay", None)), PAID), max_size=4).map(
    lambda calls: [Referring("find", 0), *calls]
)


@pytest.mark.parametrize("metric", CALLS)
@given(expected=REFERRING, actual=st.lists(st.one_of(FOUND, PAID), max_size=5))
def test_causes_among_calls_that_refer_to_results_are_minimal(
    metric: str, expected: list[Referring], actual: list[Referring]
) -> None:
    """A call that is repaired keeps its result, one that is added has another result than all others.

    What a call is given is no result of a later one: nothing tells what that would have changed.
    """
    asked = question(reference_tool_interactions=[one.wanted() for one in expected])
    for place, one in enumerate(actual):
        assume(one.name == "find" or one.given not in [later.found for later in actual[place:]])
    of = session([("hi", [one.made(place) for place, one in enumerate(actual)])])
    causes = failed(metric, of, asked)
    if causes:
        rule, compared = CALLS[metric], pairings_of(of, asked)
        pairing, context = compared.pairing(asked.accepted_calls[0]), compared.context("subset")
        _, found = call_repairs(pairing, context, in_order=rule.in_order, further=rule.further)

        def matches(e: int, a: int) -> bool:
            return expected[e].name == actual[a].name and expected[e].given in (None, actual[a].given)

        def fails(chosen: Sequence[Repair]) -> object:
            kept = {one.expected: actual[one.actual].found for one in chosen if one.actual is not None}
            wanted = [
                one._replace(found=10 + e if kept.get(e) is None else kept[e])
                for e, one in enumerate(expected)
            ]
            items = repaired(
                wanted,
                actual,
                found,
                chosen,
                in_order=rule.in_order,
                match=matches,
                is_early=lambda one: one.name == "find",
            )
            results: list[int | None] = []
            calls = []
            for one in items:
                if one.name == "find":
                    results.append(one.found)
                elif one.given is None:
                    one = one._replace(given=results[-1] if results else -1)
                calls.append(one.made(len(calls)))
            return failed(metric, session([("hi", calls)]), asked)

        assert_minimal(found, fails, causes)


HANDOFFS = st.lists(
    st.tuples(st.sampled_from(["find", "transfer_to_a", "transfer_to_b", "transfer_to_c"]), st.just(0)),
    max_size=5,
)


@pytest.mark.parametrize("metric", CALLS)
@given(expected=HANDOFFS.filter(bool), actual=HANDOFFS)
def test_causes_among_handoffs_are_minimal_and_each_names_a_place_of_its_own(
    metric: str, expected: list[Item], actual: list[Item]
) -> None:
    asked = accepting([expected])

    def made(items: Sequence[Item]) -> Session:
        calls = (call._replace(handoff=call.tool_name != "find") for call in calls_of(items))
        return session([("hi", list(calls))])

    of = made(actual)
    causes = failed(metric, of, asked)
    if causes:
        compared = compared_calls(of, asked)
        rule, context = CALLS[metric], Context("subset", {}, compared)
        wanted = asked.accepted_calls[0]
        pairing = pairing_of(wanted, compared, lambda one, call: is_match(one, call, context) is True)
        _, found = call_repairs(pairing, context, in_order=rule.in_order, further=rule.further)

        def fails(chosen: Sequence[Repair]) -> object:
            items = [actual[call.position] for call in compared]
            return failed(
                metric, made(repaired(expected, items, found, chosen, in_order=rule.in_order)), asked
            )

        assert_minimal(found, fails, causes)
        spans = [one.span for one in causes if isinstance(one, Cause) and one.span is not None]
        assert len(set(spans)) == len(spans)


@pytest.mark.parametrize("metric", STEPS)
@given(
    expected=st.lists(st.sampled_from("abc"), min_size=1, max_size=5), actual=st.lists(st.sampled_from("abc"))
)
def test_causes_of_gates_over_steps_are_minimal(metric: str, expected: list[str], actual: list[str]) -> None:
    asked = question(trajectory=expected)

    def with_steps(names: Sequence[str]) -> Session:
        steps = (step(name, span_id=f"{place}", position=place) for place, name in enumerate(names))
        return session(trajectory=tuple(steps))

    causes = failed(metric, with_steps(actual), asked)
    if causes:
        rule = STEPS[metric]
        found = repairs(
            len(expected),
            len(actual),
            lambda e, a: expected[e] == actual[a],
            lambda e, a: 36 if rule.further else None,
            in_order=rule.in_order,
            further=rule.further,
        )

        def fails(chosen: Sequence[Repair]) -> object:
            wanted, made = [(name, 0) for name in expected], [(name, 0) for name in actual]
            items = repaired(wanted, made, found, chosen, in_order=rule.in_order)
            return failed(metric, with_steps([name for name, _ in items]), asked)

        assert_minimal(found, fails, causes)


@given(
    wanted=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 1), min_size=1),
    state=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 1)),
)
def test_causes_in_state_are_the_variables_that_differ(wanted: dict[str, int], state: dict[str, int]) -> None:
    asked = question(state=wanted)
    spans = {name: f"set {name}" for name in state}
    made = session(state_variables=state, state_spans=spans)
    causes = failed("state_management_fidelity", made, asked)
    paths = [one.path for one in causes if isinstance(one, Cause)]
    for left in [None, *paths]:
        repaired_state = {**state, **{name: wanted[name] for name in paths if name != left}}
        again = failed("state_management_fidelity", replace(made, state_variables=repaired_state), asked)
        assert bool(again) is (left is not None)
    assert [one.span for one in causes if isinstance(one, Cause)] == [spans.get(path) for path in paths]


@pytest.mark.parametrize("same", [(), ("x",)])
@given(actual=ITEMS)
def test_the_causes_of_before_are_the_places_where_the_earlier_call_was_due(
    same: tuple[str, ...], actual: list[Item]
) -> None:
    asked = question(before=[{"first": "a", "then": "b", **({"same": list(same)} if same else {})}])
    causes = failed("before", session([("hi", calls_of(actual))]), asked)
    places = [int(one.before) for one in causes if isinstance(one, Cause) and one.before is not None]
    assert [(one.path, one.span) for one in causes if isinstance(one, Cause)] == [("a", None)] * len(places)

    def fails(chosen: Collection[int]) -> object:
        items: list[Item] = []
        for place, item in enumerate(actual):
            items += [("a", item[1]), item] if place in chosen else [item]
        return failed("before", session([("hi", calls_of(items))]), asked)

    assert not fails(places)
    for left in places:
        assert fails([one for one in places if one != left])


@pytest.mark.parametrize(
    ("metric", "limits"),
    [
        ("at_most", {"at_most": {"a": 1, "b": 0}}),
        ("forbidden_tools", {"forbidden_tools": ["a", "b"]}),
        ("unexpected_calls<=0", {"tools": [("a", {"x": 0})], "no_further_calls": True}),
        ("no_further_calls", {"tools": [("a", {"x": 0})], "no_further_calls": ["a", "b"]}),
        ("tools:precision>=1", {"tools": [("a", {"x": 0}), ("b", {"x": 1})]}),
    ],
)
@given(actual=ITEMS)
def test_the_causes_of_limits_are_the_calls_beyond_them(
    metric: str, limits: dict[str, Any], actual: list[Item]
) -> None:
    asked = question(**limits)

    def fails(left_out: Collection[str]) -> tuple[Evidence, ...]:
        kept = [call for call in calls_of(actual) if call.span_id not in left_out]
        return failed(metric, session([("hi", kept)]), asked) if kept or "precision" not in metric else ()

    spans = [one.span for one in fails([]) if isinstance(one, Cause) and one.span is not None]
    assert not fails(spans)
    for left in spans:
        assert fails([one for one in spans if one != left])


@given(
    texts=st.lists(st.sampled_from("abcd"), min_size=1, unique=True),
    replies=st.lists(st.text("abcd ", max_size=3), min_size=1, max_size=3),
)
def test_the_causes_of_texts_are_those_that_are_lacking(texts: list[str], replies: list[str]) -> None:
    asked = question(*["hi"] * len(replies), required_texts=texts)

    def fails(added: Collection[str]) -> tuple[Evidence, ...]:
        made = session([("hi", [])] * len(replies))
        said = [*replies[:-1], " ".join([replies[-1], *added])]
        turns = tuple(
            turn._replace(final_response=reply) for turn, reply in zip(made.turns, said, strict=True)
        )
        return failed("required_texts", replace(made, turns=turns), asked)

    lacking = [one.path.split('"')[1] for one in fails([]) if isinstance(one, Cause)]
    assert lacking == [text for text in texts if not any(text in reply for reply in replies)]
    assert not fails(lacking)
    for left in lacking:
        assert fails([one for one in lacking if one != left])


def test_a_reply_that_lacks_a_text_is_named_by_the_model_call_that_gave_it() -> None:
    made = session([("hi", []), ("more", [])])
    calls = (llm(turn=1, span_id="one"), llm(turn=2, span_id="two"))
    made = replace(made, llm_calls=calls)
    asked = question("hi", "more", required_texts=["absent", {"text": "gone", "turn": 1}, "ok"])
    assert failed("required_texts", made, asked) == (
        Cause("two", 'required_texts "absent"'),
        Cause("one", 'required_texts "gone"'),
    )
    said = question("hi", "more", forbidden_texts=["ok"])
    assert failed("forbidden_texts", made, said) == (
        Cause("one", 'forbidden_texts "ok"'),
        Cause("two", 'forbidden_texts "ok"'),
    )


def in_messages(items: Sequence[Item], models: Sequence[int]) -> Session:
    """Return a session whose calls are known from messages alone, each requested by a model call."""
    calls = [
        call._replace(span_id=None, turn=1, start_ns=model * SECOND_NS)
        for call, model in zip(calls_of(items), models, strict=True)
    ]
    made = [
        llm(turn=1, span_id=f"model {number}", start_ns=0, end_ns=number * SECOND_NS)
        for number in sorted(set(models))
    ]
    return replace(session([("hi", calls)]), llm_calls=tuple(made))


@pytest.mark.parametrize(
    ("items", "models", "cause"),
    [
        ("a0 z0 b0", (1, 2, 3), Cause("model 2", "z")),
        ("a0 b1", (1, 2), Cause("model 2", "b(x)")),
        ("a0", (1,), Cause(None, "b", after="model 1")),
        ("b0", (2,), Cause(None, "a", before="model 2")),
    ],
)
def test_a_call_that_only_messages_record_is_named_by_the_model_call_that_requested_it(
    items: str, models: tuple[int, ...], cause: Cause
) -> None:
    asked = question(tools=[("a", {"x": 0}), ("b", {"x": 0})], no_further_calls=True)
    made = in_messages([(one[0], int(one[1])) for one in items.split()], models)
    assert failed("tools:exact", made, asked) == (cause,)
    if cause.span is not None:
        assert [one.span for one in failed("no_further_calls", made, asked) if isinstance(one, Cause)] == [
            cause.span
        ]


def test_a_call_due_between_two_of_one_model_call_is_named_by_that() -> None:
    asked = question(tools=[(name, {"x": 0}) for name in "abc"])
    made = in_messages([("a", 0), ("c", 0)], (1, 1))
    assert failed("tool_usage_accuracy", made, asked) == (Cause("model 1", "b"),)


def test_where_further_calls_of_some_tools_are_free_none_of_them_stands_for_one_that_is_due() -> None:
    tools = [("pay", {"id": "A"})]
    made = session([("hi", [tool("look_up", {"id": "A"}, span_id="s")])])
    assert failed("tool_usage_accuracy", made, question(tools=tools)) == (Cause("s", "look_up"),)
    free = question(tools=tools, no_further_calls=["pay", "refund"])
    assert failed("tool_usage_accuracy", made, free) == (Cause(None, "pay"),)
    assert failed("tool_usage_accuracy", made, question(tools=tools, no_further_calls=["look_up"])) == (
        Cause("s", "look_up"),
    )


def test_of_calls_that_differ_alike_one_that_succeeded_stands_for_what_is_expected() -> None:
    tried = tool("pay", {"id": "B"}, span_id="tried", ok=False, error="no", start_ns=1)
    paid = tool("pay", {"id": "B"}, span_id="paid", start_ns=2, position=1)
    asked = question(tools=[("pay", {"id": "A"})])
    assert failed("tool_usage_accuracy", session([("hi", [tried, paid])]), asked) == (
        Cause("paid", "pay(id)"),
    )


@pytest.mark.parametrize(
    ("made", "causes"),
    [
        ("a0 b0 c0", []),
        ("b0 c0", [Cause(None, "a", before="0")]),
        ("a0 c0", [Cause(None, "b", after="0", before="1")]),
        ("a0 b1 c0", [Cause("1", "b(x)")]),
        ("a0 z0 c0", [Cause("1", "z")]),  # another tool in its place
        ("c0 b0 c0", [Cause("0", "c")]),  # of the two calls of c, the one where a is due
        ("a0 a0 b0 c0", [Cause("1", "a")]),
        ("a0 c0 b0", [Cause("1", "c")]),
    ],
)
def test_a_changed_call_is_the_cause(made: str, causes: list[Any]) -> None:
    asked = question(tools=[(name, {"x": 0}) for name in "abc"])
    items = [(one[0], int(one[1])) for one in made.split()]
    assert list(failed("tools:exact", session([("hi", calls_of(items))]), asked)) == causes


def test_what_the_user_said_tells_which_turn_is_missing_or_too_many() -> None:
    spans = {number: [tool("find", span_id=f"turn {number}", start_ns=number)] for number in (1, 2, 3)}
    asked = question("one", "two", "three")
    two = session([("one", spans[1]), ("three", spans[2])])
    assert failed("turns_answered", two, asked)[0] == Cause(None, "turns[2]", after="turn 1", before="turn 2")
    four = session([("one", spans[1]), ("two", spans[2]), ("what?", spans[3]), ("three", [])])
    assert failed("turns_answered", four, asked)[0] == Cause("turn 3", "turns[3]")


def test_gates_that_compare_calls_lead_and_each_place_is_named_once() -> None:
    steps, calls = (Cause("s", "find"), Cause("other")), (Cause("s", "find(q)"), "plain", "plain")
    named = leading_causes([("trajectory_accuracy", steps), ("tool_usage_accuracy", calls)])
    assert named == (Cause("s", "find(q)"), "plain", Cause("other"))
    assert [cause_text(one) for one in (*named, Cause(None, "pay", "a", "b"), Cause(None, "city"))] == [
        "find(q) at span s",
        "at span plain",
        "at span other",
        "pay due after span a, before span b",
        "city missing",
    ]
    places = {"s": WhatRan("find", 2), "plain": WhatRan("pay", None), "a": WhatRan("look_up", 1)}
    beside = (*named, Cause("plain", "pay(id)"), Cause("s", "city"), Cause(None, "pay", "a", "b"))
    assert [cause_text(one, places) for one in beside] == [
        "find(q) in turn 2",
        "at pay",
        "",
        "pay(id)",
        "city at find in turn 2",
        "pay due after look_up in turn 1",
    ]


def test_an_item_that_is_near_stands_for_an_expected_one_also_across_another() -> None:
    near = {(0, 1): 5, (1, 0): 5}
    options = {"in_order": False, "further": False}
    found = repairs(2, 2, lambda _e, _a: False, lambda e, a: near.get((e, a)), **options)
    assert found == [Repair(1, 0), Repair(0, 1)]
