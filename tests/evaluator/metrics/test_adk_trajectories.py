"""Cases after those of ADK's trajectory evaluators, graded by our metrics.

ADK compares the calls of each turn and takes the mean; its match types EXACT, IN_ORDER and ANY_ORDER are our
`tools:exact`, `tools:in_order` and `tools:any_order`, which compare the calls of the whole
conversation. `adk` is the score that ADK gives a case; a case whose `ours` is another has the reason.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from builders import question, session, tool
from grading import grade, run_metric

from spangrade import InputError
from spangrade.converters.datasets.golden import GoldenDataset
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics import Score, parse_metric

Calls = tuple[tuple[str, dict[str, object]], ...]
CART, RAIN, SUN = ("get_cart", {}), ("forecast", {"sky": "rain"}), ("forecast", {"sky": "sun"})
PAY, LOG, NOTE = ("pay", {}), ("log", {}), ("note", {})


class Case(NamedTuple):
    """Calls by turn, the expected ones, and the scores; `why` is the reason for another score than ADK's."""

    what: str
    metric: str
    turns: tuple[Calls, ...]
    expected: Calls
    adk: float | None
    ours: float
    why: str = ""


EXACT, IN_ORDER, ANY_ORDER = (f"tools:{name}:exact" for name in ("exact", "in_order", "any_order"))
IGNORED = {name: name.removesuffix(":exact") + ":ignore" for name in (EXACT, IN_ORDER, ANY_ORDER)}
WHOLE = "the golden question expects the calls of the conversation, not those of each turn"

CASES = (
    Case("equal calls", EXACT, ((RAIN,),), (RAIN,), 1, 1),
    Case("another tool", EXACT, ((CART,),), (PAY,), 0, 0),
    Case("other arguments", EXACT, ((RAIN,),), (SUN,), 0, 0),
    Case("a call too few", EXACT, ((RAIN,),), (RAIN, RAIN), 0, 0),
    Case("a call too many", EXACT, ((RAIN, RAIN),), (RAIN,), 0, 0),
    Case("no calls on either side", EXACT, ((),), (), 1, 1),
    Case("two turns, the second differs", EXACT, ((RAIN,), (CART,)), (RAIN, PAY), 0.5, 0, WHOLE),
    Case("two turns, both as expected", EXACT, ((RAIN,), (CART,)), (RAIN, CART), 1, 1),
    Case(
        "in order with other calls between",
        IN_ORDER,
        ((CART, LOG, RAIN, NOTE, PAY, LOG),),
        (CART, RAIN, PAY),
        1,
        1,
    ),
    Case("in order, the last is missing", IN_ORDER, ((CART, LOG, RAIN, NOTE),), (CART, RAIN, PAY), 0, 0),
    Case("all there, in another order", IN_ORDER, ((CART, PAY, RAIN),), (CART, RAIN, PAY), 0, 0),
    Case("any order, swapped", ANY_ORDER, ((PAY, CART),), (CART, PAY), 1, 1),
    Case(
        "any order with other calls between",
        ANY_ORDER,
        ((RAIN, LOG, CART, NOTE, PAY),),
        (CART, RAIN, PAY),
        1,
        1,
    ),
    Case("any order, one is missing", ANY_ORDER, ((CART, LOG, RAIN, NOTE),), (CART, RAIN, PAY), 0, 0),
    Case(
        "any order, expected twice and made twice",
        ANY_ORDER,
        ((CART, RAIN, PAY, CART),),
        (CART, RAIN, CART),
        1,
        1,
    ),
    Case(
        "any order, expected twice and made once", ANY_ORDER, ((CART, RAIN, PAY),), (CART, RAIN, CART), 0, 0
    ),
    Case("arguments ignored, equal names", IGNORED[EXACT], ((RAIN, PAY),), (SUN, ("pay", {"n": 1})), 1, 1),
    Case("arguments ignored, another tool", IGNORED[EXACT], ((CART,),), (PAY,), 0, 0),
    Case("arguments ignored, a call too many", IGNORED[EXACT], ((CART, PAY),), (CART,), 0, 0),
    Case("arguments ignored, no calls", IGNORED[EXACT], ((),), (), 1, 1),
    Case(
        "arguments ignored, in order", IGNORED[IN_ORDER], ((RAIN, LOG, PAY),), (SUN, ("pay", {"n": 1})), 1, 1
    ),
    Case("arguments ignored, another order", IGNORED[IN_ORDER], ((PAY, CART),), (CART, PAY), 0, 0),
    Case("arguments ignored, in order, one is missing", IGNORED[IN_ORDER], ((CART,),), (CART, PAY), 0, 0),
    Case("arguments ignored, any order", IGNORED[ANY_ORDER], ((PAY, RAIN),), (SUN, ("pay", {"n": 1})), 1, 1),
    Case("arguments ignored, any order, one is missing", IGNORED[ANY_ORDER], ((CART,),), (CART, PAY), 0, 0),
    Case(
        "arguments ignored, two turns, the second differs",
        IGNORED[EXACT],
        ((RAIN,), (CART,)),
        (SUN, PAY),
        0.5,
        0,
        WHOLE,
    ),
    Case(
        "an argument that the reference does not name",
        "tools:exact",
        ((("forecast", {"sky": "rain", "days": 2}),),),
        (RAIN,),
        0,
        1,
        "by default the keys that the reference does not name are free; `:exact` refuses them",
    ),
    Case("the same, exactly", EXACT, ((("forecast", {"sky": "rain", "days": 2}),),), (RAIN,), 0, 0),
    Case(
        "one of two arguments differs",
        "tools:recall",
        ((("book", {"city": "Rome", "rooms": 2}),),),
        (("book", {"city": "Rome", "rooms": 1}),),
        0.5,
        0,
        "a call matches with all its expected arguments or not at all",
    ),
    Case(
        "a call without expected arguments",
        "tools:recall",
        ((("book", {"city": "Rome"}),),),
        (("book", {}),),
        1,
        1,
    ),
    Case("another call before those of one name", "tools:recall", ((LOG, RAIN, SUN),), (RAIN, SUN), 1, 1),
    Case("the expected call was not made", "tools:recall", ((),), (RAIN,), 0, 0),
    Case("one of two expected calls was made", "tools:recall", ((RAIN,),), (LOG, RAIN), 0.5, 0.5),
    Case(
        "no call is expected",
        "tools:recall",
        ((),),
        (),
        None,
        1,
        "ADK does not evaluate it; nothing was missed",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_a_case_has_the_score_of_adk_or_a_reason_for_another(case: Case) -> None:
    made = session([("hi", [tool(name, arguments) for name, arguments in calls]) for calls in case.turns])
    asked = question(*["hi"] * len(case.turns), tools=list(case.expected))
    outcome = run_metric(parse_metric(case.metric), made, asked)
    assert isinstance(outcome, Score)
    assert (outcome.value, outcome.passed) == (case.ours, case.ours == 1)
    assert bool(case.why) is (case.ours != case.adk)


def test_without_a_conversation_there_is_no_score() -> None:
    # ADK: not evaluated. Ours: the golden question was not tested, and the run is not green.
    dataset = GoldenDataset(golden_questions=(question(tools=["get_cart"]),))
    (unanswered,) = grade([], dataset)
    assert (unanswered.verdict, unanswered.reason) == (
        Verdict.INCONCLUSIVE,
        "no session answers it; import one, or name it with --answers SESSION=ID",
    )


def test_a_failed_call_does_not_meet_the_reference() -> None:
    # ADK compares what was requested; here an expected call must succeed, unless the reference differs.
    made = session([("hi", [tool("get_cart", {}, ok=False)])])
    outcome = run_metric(parse_metric("tools:exact"), made, question(tools=[("get_cart", {})]))
    assert (outcome.value, outcome.passed) == (0, False)


@pytest.mark.parametrize("name", ["tool_in-order_match", "IN_ORDER", "tools:exact:EXACT", "random string"])
def test_a_match_type_has_one_name(name: str) -> None:
    # ADK takes "in order", "IN-ORDER" and "in_order" alike; ours refuses what is not a metric's name.
    with pytest.raises(InputError):
        parse_metric(name)


def test_there_are_twenty_five_cases_and_more() -> None:
    assert len({case.what for case in CASES}) == len(CASES) >= 25
