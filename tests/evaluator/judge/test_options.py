"""The options of a judge that the command line, the API and pytest share."""

import os

import pytest
from gemini_standin import MODEL, decision

from spangrade import InputError
from spangrade.evaluator.judge import (
    JudgeBudgetExceeded,
    Judgement,
    JudgeOptions,
    Spent,
    UnknownJudgeModel,
    default_cache_path,
    default_judge,
    judge_run,
    same_meaning,
    total_spent,
)
from spangrade.evaluator.judge.choice import judge_of_run
from spangrade.evaluator.judge.options import judge_from


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"votes": 2}, "judge.votes: expected an odd number, so that there is a majority, found 2"),
        ({"max_calls": -1}, "judge.max_calls: expected 0 or more, found -1"),
        ({"max_cost_usd": float("nan")}, "judge.max_cost_usd: expected 0 or more, found nan"),
        ({"threshold": 1.5}, "judge.threshold: expected 0 to 1, found 1.5"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        JudgeOptions(**options)


def test_processes_share_a_budget_equally():
    options = JudgeOptions("m", max_calls=5, max_cost_usd=1.0, votes=3)
    assert [options.share(index, 2) for index in range(2)] == [
        JudgeOptions("m", max_calls=3, max_cost_usd=0.5, votes=3),
        JudgeOptions("m", max_calls=2, max_cost_usd=0.5, votes=3),
    ]
    assert JudgeOptions("m").share(0, 2) == JudgeOptions("m")


def test_a_provider_that_is_not_installed_is_refused_before_anything_is_asked():
    with pytest.raises(InputError, match="judge 'nobody/x': no provider 'nobody' is installed"):
        judge_run(JudgeOptions("nobody/x"))


async def test_a_judge_with_options_keeps_to_them(gemini, monkeypatch, tmp_path):
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", gemini.url)
    monkeypatch.setenv("SPANGRADE_JUDGE_CACHE", str(tmp_path / "judge.sqlite"))
    gemini.answer = lambda request: decision(True, "alike", 0.6)
    run = judge_run(JudgeOptions(MODEL, max_calls=6, votes=3, threshold=0.7))
    verdict = await run.ask(same_meaning("Hi", "Hello"))
    assert (verdict.passed, verdict.reason) == (False, "alike (3 of 3 votes) (score 0.6 is below 0.7)")
    assert str(run.spent) == "3 calls, 0 cache hits, 3000 tokens in, 300 out, $0.001650"


def test_what_processes_spent_adds_up_and_stays_unknown():
    parts = [Spent(1, 2, 10, 20, 0.5), Spent(2, 0, 1, None, None)]
    assert total_spent(parts) == Spent(3, 2, 11, None, None)
    assert str(total_spent(parts)) == "3 calls, 2 cache hits, 11 tokens in, unknown out, cost unknown"


async def test_a_call_to_another_service_counts_in_the_budget(gemini):
    async def call() -> Judgement:
        return Judgement(None, 0.5, "rated")

    run = judge_run(JudgeOptions(MODEL, max_calls=1))
    assert await run.pay(call) == Judgement(None, 0.5, "rated")
    with pytest.raises(JudgeBudgetExceeded):
        await run.pay(call)
    assert (gemini.calls, run.spent) == (0, Spent(1, 0, None, None, None))


def test_a_grade_in_a_test_keeps_to_the_judge_of_the_test_run(gemini):
    of_tests = judge_run(JudgeOptions(MODEL, max_calls=0))
    with judge_from(lambda: of_tests):
        assert judge_of_run(JudgeOptions()) is of_tests
        assert default_judge() is of_tests


def test_a_run_of_a_run_checks_the_model(gemini, monkeypatch):
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", gemini.url)
    gemini.models = {MODEL}
    with judge_from(lambda: judge_run(JudgeOptions("nope"))), pytest.raises(UnknownJudgeModel, match="nope"):
        judge_of_run(JudgeOptions(max_calls=1)).check_model()


def test_a_judge_that_is_not_asked_needs_no_home_folder(gemini, monkeypatch):
    for name in ("SPANGRADE_JUDGE_CACHE", "SPANGRADE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 2)  # a container's user without an entry
    assert judge_run(JudgeOptions(MODEL)).spent == Spent()
    with pytest.raises(InputError, match="no home folder"):
        default_cache_path()
