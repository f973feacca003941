"""`run --stop-when-settled`: questions are asked until it is known whether more break than are fixed."""

import asyncio
import json
import random
import sys
import textwrap
from collections import Counter

import pytest
from command_line import run as spangrade
from settled_runs import figures

import spangrade as sg
from spangrade import RunOptions
from spangrade.evaluator.grading.settled import Settlement
from spangrade.evaluator.statistics.sequential import e_value, settlement

AGENT = """
    import json
    from pathlib import Path

    import spangrade

    WRONG = Path(__file__).with_name("wrong.json")

    @spangrade.tool
    def look_up(order):
        return "sent"

    def answer(text):
        with spangrade.agent("shop"):
            return "unknown" if text in json.loads(WRONG.read_text()) else look_up(text)
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with an agent and 60 golden questions, which is the current one."""
    (tmp_path / "shop_agent.py").write_text(textwrap.dedent(AGENT))
    questions = [
        {
            "id": f"q{number:02}",
            "user_inputs": [f"A{number:02}"],
            "reference_data": {
                "reference_tool_interactions": [
                    {"tool_name": "look_up", "input_arguments": {"order": f"A{number:02}"}}
                ]
            },
        }
        for number in range(60)
    ]
    (tmp_path / "golden.json").write_text(json.dumps({"golden_questions": questions}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("shop_agent", None)


def wrong(folder, numbers):
    (folder / "wrong.json").write_text(json.dumps([f"A{number:02}" for number in numbers]))


RUN = ["run", "shop_agent.py:answer", "golden.json", "--name"]


@pytest.mark.exhaustive
def test_a_run_that_is_worse_stops_when_that_is_known(shop):
    wrong(shop, range(3))
    assert spangrade(*RUN, "base").code == 1
    wrong(shop, range(40))
    done = spangrade(*RUN, "worse", "--compare", "base", "--stop-when-settled", "--format", "json")
    printed = json.loads("\n".join(done.out))
    settled = printed["settled"]
    assert done.code == printed["exit_code"] == 1
    assert settled.pop("baseline") == sg.open().runs()[0].run_id
    asked = settled["asked"]
    assert settled == {"outcome": "worse", "asked": asked, "questions": 60, "broken": 8, "fixed": 0}
    assert 8 <= asked < 30
    assert (printed["sessions"], printed["sessions_not_run"]) == (asked, 60 - asked)
    assert len(printed["flips"]["broken"]) == 8
    # The others are asked later, and the whole run is then judged as any other.
    resumed = spangrade(*RUN, "worse", "--resume", "--compare", "base", "--fail-if", "worse")
    assert resumed.code == 1
    assert resumed.out[0] == "60 sessions: 20 passed, 40 failed"


@pytest.mark.exhaustive
def test_the_ten_lines_say_after_how_many_questions_a_run_was_settled(shop):
    wrong(shop, [])
    assert spangrade(*RUN, "base").code == 0
    wrong(shop, [7])
    done = spangrade(*RUN, "same", "--stop-when-settled", "--concurrency", "4")
    line = next(line for line in done.out if line.startswith("against base: "))
    settled = line.removeprefix("against base: ")
    assert settled.startswith("settled after ")
    assert " of 60 questions: no loss can be shown any more (" in settled
    assert " not run" in done.out[0]
    assert done.code == (4 if "(1 broke" in settled else 0)
    assert f"exit code {done.code}: {settled}" in done.out


@pytest.mark.exhaustive
def test_questions_that_are_left_out_are_not_passed(shop):
    wrong(shop, [])
    with sg.open() as db:
        db.run("shop_agent.py:answer", "golden.json", name="base")
        run = db.run("shop_agent.py:answer", "golden.json", options=RunOptions(stop_when_settled=True))
        assert run.settled is not None
        assert run.settled.outcome is Settlement.NO_LOSS
        assert (run.exit_code, run.passed) == (0, False)
        assert len(run.unanswered_questions) == run.not_run == 60 - run.settled.asked


@pytest.mark.exhaustive
def test_repeats_of_a_question_are_one_and_its_baseline_was_asked_as_often(shop):
    wrong(shop, [])
    with sg.open() as db:
        db.run("shop_agent.py:answer", "golden.json", name="base", options=RunOptions(repeat=2))
        wrong(shop, range(60))
        options = RunOptions(repeat=2, stop_when_settled=True, baseline="base")
        run = db.run("shop_agent.py:answer", "golden.json", options=options)
        assert Counter(one.question_id for one in run.sessions if one.session_id) == dict.fromkeys(
            {one.question_id for one in run.sessions if one.session_id}, 2
        )
        assert run.settled is not None
        assert (run.settled.asked, run.settled.broken, run.exit_code) == (8, 8, 1)
    once = spangrade(*RUN, "once", "--compare", "base", "--stop-when-settled")
    assert "all are asked: 0 questions that can be compared with base can settle nothing" in "\n".join(
        once.err
    )
    assert "against base: not settled after all 60 questions (0 broke, 0 fixed)" in once.out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--compare", "base"], "base cannot settle this run, for it was graded by other gates: latency"),
        ([], "no earlier run of these questions"),
        (["--resume"], "expected it without resume, which asks a part"),
        (["--failed"], "expected it without failed, which asks a part"),
        (["--compare", "base", "--fail-if", "worse"], "expected it without --stop-when-settled"),
    ],
)
@pytest.mark.short_form("options", 2)
def test_what_cannot_settle_a_run_is_named_before_the_agent_runs(shop, options, problem):
    wrong(shop, [])
    if "other gates" in problem:
        spangrade(*RUN, "base", "--metric", "latency_metrics<=100")
    done = spangrade(*RUN, "next", "--stop-when-settled", *options)
    assert done.code == 2
    assert problem in " ".join(" ".join(done.err).replace("│", " ").split())


def test_an_order_in_which_conversations_end_does_not_count():
    """Broken answers that come first do not settle a run: questions count in the order of the tasks."""
    from spangrade.converters.datasets.golden import GoldenQuestion
    from spangrade.evaluator.agents.hold import Held, Task
    from spangrade.evaluator.agents.settling import Baseline, Settling
    from spangrade.evaluator.grading.verdict import Verdict

    names = [f"q{number}" for number in range(40)]
    tasks = [Task(GoldenQuestion(id=name, user_inputs=["hi"]), 1) for name in names]

    class Known(Settling):
        def _verdict(self, held):
            return Verdict.FAILED if held.task.question.id in names[20:] else Verdict.PASSED

    settling = Known(Baseline("id", "base", dict.fromkeys(names, 1.0)), tasks, None, None, ())

    async def count():
        for task in reversed(tasks[1:]):
            await settling.count(Held(task, task.question.id, (), None, None))
        assert (settling.is_settled, settling.settled().asked) == (False, 0)
        await settling.count(Held(tasks[0], "q0", (), None, None))

    asyncio.run(count())
    assert settling.is_settled
    assert (settling.settled().asked, settling.settled().outcome) == (28, Settlement.WORSE)


def test_the_evidence_is_a_fair_bet_without_a_loss():
    """Whatever was seen, the next discordant question changes it by nothing on average (a martingale)."""
    chance = random.Random(5)
    for _ in range(200):
        broken, fixed = chance.randrange(60), chance.randrange(60)
        mean = (e_value(broken + 1, fixed) + e_value(broken, fixed + 1)) / 2
        assert mean == pytest.approx(e_value(broken, fixed))
    assert e_value(0, 0) == pytest.approx(1)
    assert [settlement(7, 0, 0), settlement(7, 0, 1), settlement(8, 0, 0)] == [
        Settlement.NO_LOSS,
        Settlement.OPEN,
        Settlement.WORSE,
    ]


@pytest.mark.exhaustive
def test_a_loss_of_15_points_takes_few_questions_and_without_a_loss_few_runs_are_called_worse():
    worse, same = figures(0.17, 0.02, 400, 200), figures(0.1, 0.1, 400, 200)
    assert worse.questions < 75
    assert worse.worse >= 0.99
    assert same.worse <= 0.05
