"""A metric may be an async function, and is then asked of many sessions at once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

import pytest
from builders import llm, question, session, tool
from grading import grade, run_metric

from spangrade.converters.datasets.golden import GoldenDataset
from spangrade.evaluator.grading.grade import MAX_PENDING
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.judge import JudgeBudgetExceeded, JudgeError, JudgeUnavailable
from spangrade.evaluator.metrics import (
    Failure,
    Inconclusive,
    Metric,
    NotApplicable,
    Outcome,
    Score,
    parse_metric,
)
from spangrade.evaluator.session import Session

DATASET = GoldenDataset(golden_questions=(question(),))


def sessions(number: int) -> Iterator[Session]:
    return (session(session_id=f"s{index}") for index in range(number))


async def test_sessions_are_judged_at_once_and_graded_in_their_order() -> None:
    under_way, all_there = 0, asyncio.Event()

    async def slow(one: Session) -> Outcome:
        nonlocal under_way
        under_way += 1
        if under_way == MAX_PENDING:
            all_there.set()
        await asyncio.wait_for(all_there.wait(), timeout=60)
        return Score(float(one.session_id[1:]))

    # Called where an event loop runs already, as in an async test.
    grades = list(grade(sessions(3 * MAX_PENDING), DATASET, [Metric("slow", slow)]))
    assert [one.outcomes["slow"] for one in grades] == [
        Score(float(index)) for index in range(3 * MAX_PENDING)
    ]


def test_who_stops_reading_grades_stops_the_asking() -> None:
    asked: list[str] = []
    stopped: list[str] = []

    async def waiting(one: Session) -> Outcome:
        asked.append(one.session_id)
        if one.session_id == "s0":
            return Score(1)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(one.session_id)
        raise AssertionError

    grades = grade(sessions(5), DATASET, [Metric("waiting", waiting)])
    assert next(grades).outcomes["waiting"] == Score(1)
    grades.close()
    run_metric(Metric("after", said_later), session(), None)  # the loop has been round
    assert stopped == asked[1:]


async def said_later(_: Session) -> Outcome:
    await asyncio.sleep(0)
    return Score(1)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (JudgeUnavailable("no key"), Inconclusive("no key")),
        (JudgeBudgetExceeded("all spent"), Inconclusive("all spent", over_budget=True)),
        (JudgeError("it answered nonsense"), Failure("it answered nonsense", by_judge=True)),
    ],
)
@pytest.mark.parametrize("needs", [None, "user_inputs"])
def test_a_judge_that_cannot_be_asked_is_no_verdict_and_one_that_breaks_is_a_failure(
    error: Exception, outcome: Outcome, needs: str | None
) -> None:
    async def later(*_: object) -> Outcome:
        raise error

    def at_once(*_: object) -> Outcome:
        raise error

    for function in (later, at_once):
        assert run_metric(Metric("m", function, needs=needs), session(), question()) == outcome


def test_what_an_async_metric_raises_or_returns_is_told_like_any_other() -> None:
    async def broken(_: Session) -> Outcome:
        raise ZeroDivisionError("by none")

    async def nothing(_: Session) -> None:
        pass

    (graded,) = grade(sessions(1), DATASET, [Metric("broken", broken), Metric("nothing", nothing)])  # type: ignore[arg-type]
    assert graded.verdict is Verdict.BROKEN
    failure = graded.outcomes["broken"]
    assert isinstance(failure, Failure)
    assert failure.error.startswith("ZeroDivisionError: by none (")
    assert graded.outcomes["nothing"] == Failure(
        "returned None; expected a Score, Inconclusive, NotApplicable or a number"
    )


def test_a_metric_for_other_agents_is_not_applicable() -> None:
    asked = [Metric(name, said_later, agents=(name,), threshold=1.0) for name in ("shop", "cashier")]
    (graded,) = grade(sessions(1), DATASET, asked)
    assert graded.outcomes["shop"] == Score(1, True)
    assert graded.outcomes["cashier"] == NotApplicable("none of its agents took part: cashier")
    assert graded.verdict is Verdict.PASSED


def test_what_is_not_wholly_recorded_neither_passes_nor_fails_for_what_may_be_missing() -> None:
    asked = question(tools=["find", "pay"])
    whole = session([("hi", [tool("find"), tool("pay")])], missing_spans=2)
    part = session([("hi", [tool("find")])], missing_spans=1)
    recall = parse_metric("tools:recall")
    assert run_metric(recall, whole, asked) == Inconclusive(
        "2 spans are missing from the recording; of the rest: as expected"
    )
    assert run_metric(recall, part, asked) == Inconclusive(
        "1 span is missing from the recording; of the rest: missing: pay"
    )
    dataset = GoldenDataset(golden_questions=(asked,))
    assert [one.verdict for one in grade([whole, part], dataset)] == [Verdict.INCONCLUSIVE] * 2
    reported = next(iter(grade([whole], dataset))).outcomes
    assert not [name for name, outcome in reported.items() if isinstance(outcome, Score)]


def test_a_limit_that_the_recorded_part_is_beyond_is_missed() -> None:
    dear = session(llm_calls=(llm(),), cost_usd=0.01, missing_spans=1)
    assert run_metric(parse_metric("cost<=0.005"), dear, None) == Score(
        0.01,
        False,
        "at best 0.01: 1 span is missing from the recording; of the rest: 1 model calls",
        is_bound=True,
    )
    assert isinstance(run_metric(parse_metric("cost<=0.02"), dear, None), Inconclusive)
    assert isinstance(run_metric(parse_metric("tool_utilization>=1"), dear, None), Inconclusive)


def test_no_judge_is_asked_about_a_session_with_missing_spans() -> None:
    asked = []

    async def judged(one: Session) -> Outcome:
        asked.append(one)
        return Score(1.0)

    assert run_metric(Metric("judged", judged), session(missing_spans=1), None) == Inconclusive(
        "1 span is missing from the recording"
    )
    assert asked == []


def test_no_score_holds_of_a_session_whose_traces_were_sampled() -> None:
    stopped = session([("hi", [tool("find")])], sampled=True)
    dataset = GoldenDataset(golden_questions=(question("hi", "bye"),))
    (grade_,) = [one for one in grade([stopped], dataset) if one.session_id]
    assert grade_.verdict is Verdict.INCONCLUSIVE
    assert "traces were sampled: some of the session may have been dropped" in grade_.reason


async def leave(_: Session) -> Outcome:
    sys.exit(0)


def test_a_metric_that_exits_on_the_judges_loop_is_a_failure_and_the_loop_goes_on() -> None:
    outcome = run_metric(Metric("leaves", leave), session(), None)
    assert isinstance(outcome, Failure)
    assert outcome.error.startswith(f"SystemExit: 0 ({__file__}, line ")
    assert run_metric(Metric("after", said_later), session(), None) == Score(1)


@pytest.mark.parametrize(
    ("returned", "outcome"), [(True, Score(1.0, True)), (False, Score(0.0, False)), (0.5, Score(0.5, False))]
)
def test_a_metric_may_return_a_bool_or_a_number(returned: float, outcome: Score) -> None:
    async def later(_: Session) -> float:
        return returned

    for function in (lambda _: returned, later):
        assert run_metric(Metric("own", function, threshold=1.0), session(), None) == outcome
    incomplete = run_metric(Metric("own", lambda _: returned), session(missing_spans=1), None)
    assert incomplete == Inconclusive("1 span is missing from the recording")
