"""The limits of a judge's run: concurrency, budget, votes and thresholds."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from gemini_standin import MODEL, QUESTION, decision, judge_of, knows

from spangrade.evaluator.judge import (
    JudgeBudgetExceeded,
    JudgeError,
    Judgement,
    JudgeRun,
    Spent,
    rate,
    same_meaning,
)
from spangrade.evaluator.similarity_utils import is_similar_text


@pytest.mark.exhaustive
async def test_200_comparisons_are_asked_40_at_once_and_the_second_time_not_at_all(gemini, tmp_path):
    gemini.answer_together(40)
    gemini.answer = knows(*((f"expected {i}", f"actual {i}") for i in range(0, 200, 2)))
    pairs = [(f"actual {i}", f"expected {i}") for i in range(200)]

    async def compare_all():
        run = JudgeRun(judge_of(gemini), cache=tmp_path / "cache.sqlite")
        found = await asyncio.gather(*(is_similar_text(*pair, judge=run) for pair in pairs))
        return [bool(one) for one in found]

    assert await compare_all() == [True, False] * 100
    assert gemini.busiest == 40
    assert await compare_all() == [True, False] * 100
    assert gemini.calls == 200


async def test_no_more_questions_are_asked_at_once_than_allowed(gemini):
    gemini.answer_together(3)
    run = JudgeRun(judge_of(gemini), max_concurrency=3)
    await asyncio.gather(*(run.ask(same_meaning(f"text {i}", "Hello")) for i in range(12)))
    assert gemini.busiest == 3


async def test_a_run_ends_with_its_budget_of_calls(gemini):
    run = JudgeRun(judge_of(gemini), max_calls=2)
    asked = [run.ask(same_meaning(f"text {i}", "Hello")) for i in range(5)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Judgement] * 2 + [JudgeBudgetExceeded] * 3
    assert str(outcomes[2]) == f"judge gemini/{MODEL}: all 2 calls of the budget are spent (max_calls)"
    assert gemini.calls == 2
    assert (await run.ask(same_meaning("text 0", "Hello"))).cached


async def test_a_run_ends_with_its_budget_of_money(gemini):
    run = JudgeRun(judge_of(gemini), max_cost_usd=0.001)
    for i in range(2):
        await run.ask(same_meaning(f"text {i}", "Hello"))
    message = r"0\.001100 USD are spent of a budget of 0\.001 USD \(max_cost_usd\)"
    with pytest.raises(JudgeBudgetExceeded, match=message):
        await run.ask(QUESTION)
    assert gemini.calls == 2


async def test_answers_that_are_not_valid_are_paid_from_the_budget(gemini):
    gemini.answer = lambda request: "no JSON"
    run = JudgeRun(judge_of(gemini), max_cost_usd=0.003)
    asked = [run.ask(same_meaning(f"text {i}", "Hello")) for i in range(50)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [JudgeError] * 6 + [JudgeBudgetExceeded] * 44
    assert run.spent == Spent(6, 0, 6000, 600, pytest.approx(6 * 0.00055))
    assert gemini.calls == 6


@pytest.mark.exhaustive
async def test_calls_in_progress_exceed_a_budget_by_one_answer_at_most(gemini):
    answer_usd, limit_usd = 0.00055, 0.06
    run = JudgeRun(judge_of(gemini), max_cost_usd=limit_usd)
    asked = [run.ask(same_meaning(f"text {i}", "Hello")) for i in range(200)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {Judgement, JudgeBudgetExceeded}
    assert limit_usd <= run.spent.cost_usd < limit_usd + answer_usd
    assert gemini.busiest <= 3  # of 8,192 tokens each; more could cost more than the budget together


async def test_a_large_budget_lets_all_slots_be_used(gemini):
    gemini.answer_together(40)
    run = JudgeRun(judge_of(gemini), max_cost_usd=5)
    await asyncio.gather(*(run.ask(same_meaning(f"text {i}", "Hello")) for i in range(40)))
    assert gemini.busiest == 40


async def test_calls_of_an_unknown_price_are_made_one_by_one_under_a_budget():
    class OwnJudge:
        name = "own"
        in_progress = 0

        async def ask(self, question):
            self.in_progress += 1
            assert self.in_progress == 1
            await asyncio.sleep(0)
            self.in_progress -= 1
            return Judgement(True, None, "yes", 10, 1, 0.25)

    run = JudgeRun(OwnJudge(), max_cost_usd=1.0)
    asked = [run.ask(same_meaning(f"text {i}", "Hello")) for i in range(6)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Judgement] * 4 + [JudgeBudgetExceeded] * 2


async def test_a_budget_of_money_cannot_be_kept_without_a_price(gemini):
    run = JudgeRun(judge_of(gemini, "my-own-model"), max_cost_usd=1)
    await run.ask(QUESTION)
    with pytest.raises(JudgeError, match="price is unknown"):
        await run.ask(same_meaning("x", "y"))
    assert run.spent == Spent(calls=1, input_tokens=1000, output_tokens=100, cost_usd=None)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (
            [decision(True, "a", 0.9), decision(False, "b", 0.8), decision(True, "c", 0.7)],
            Judgement(True, 0.8, "a (2 of 3 votes)", 3000, 300, pytest.approx(0.00165)),
        ),
        (
            [decision(True, "a"), decision(False, "b"), decision(False, "c")],
            Judgement(False, None, "b (2 of 3 votes)", 3000, 300, pytest.approx(0.00165)),
        ),
    ],
)
async def test_the_majority_of_the_votes_decides(gemini, answers, expected):
    gemini.answer = lambda request: answers.pop(0)
    assert await JudgeRun(judge_of(gemini), votes=3).ask(QUESTION) == expected


async def test_the_median_of_the_votes_is_the_rating(gemini):
    answers = [json.dumps({"reason": f"r{score}", "score": score}) for score in (5, 1, 4)]
    gemini.answer = lambda request: answers.pop(0)
    verdict = await JudgeRun(judge_of(gemini), votes=3).ask(
        rate({"a": "x"}, "Rate", {1: "bad", 5: "good"}, {})
    )
    assert verdict == Judgement(None, 4, "r4 (median of 3)", 3000, 300, pytest.approx(0.00165))


@pytest.mark.parametrize("votes", [0, 2, -1])
def test_votes_are_odd(gemini, votes):
    with pytest.raises(ValueError, match="odd"):
        JudgeRun(judge_of(gemini), votes=votes)


@pytest.mark.parametrize(("score", "passed"), [(0.7, True), (0.69, False)])
async def test_a_yes_below_min_score_is_a_no(gemini, tmp_path, score, passed):
    gemini.answer = lambda request: decision(True, "because", score)
    cache = tmp_path / "cache.sqlite"
    assert (await JudgeRun(judge_of(gemini), cache=cache, min_score=0.7).ask(QUESTION)).passed is passed
    assert (await JudgeRun(judge_of(gemini), cache=cache).ask(QUESTION)).passed  # kept is what was answered


async def test_a_yes_without_a_score_cannot_be_held_against_min_score(gemini):
    with pytest.raises(JudgeError, match="gave no score"):
        await JudgeRun(judge_of(gemini), min_score=0.7).ask(QUESTION)


def test_one_run_serves_many_event_loops_and_threads(gemini):
    run = JudgeRun(judge_of(gemini))
    questions = [same_meaning(f"text {i % 4}", "Hello") for i in range(12)]
    with ThreadPoolExecutor(4) as threads:
        verdicts = list(threads.map(lambda question: asyncio.run(run.ask(question)), questions))
    assert all(verdict.passed for verdict in verdicts)
    assert (gemini.calls, run.spent.calls, run.spent.cache_hits) == (4, 4, 8)
