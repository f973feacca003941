"""`spangrade run`: an agent is asked golden questions, and its sessions are graded."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter

import pytest
from command_line import run as spangrade
from command_line import spangrade as run_spangrade
from command_line import with_variables
from paths import ROOT, SAMPLE

import spangrade as sg
from spangrade import GradeSpec, InputError, RunOptions
from spangrade.evaluator.turn import AgentTurn, ToolCall
from spangrade.tracer.frameworks import FRAMEWORKS
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

SHOP = """
    import spangrade
    from pathlib import Path

    @spangrade.tool
    def look_up_order(order_id):
        return {"order_id": order_id, "status": "sent"}

    def answer(text):
        with spangrade.agent("shop"), spangrade.llm_call("gemini-2.5-flash", "gcp.gemini") as call:
            call.usage(input_tokens=1000, output_tokens=200)
            if "refund" in text:
                raise ValueError("no refunds")
            if Path(__file__).with_name("guess").exists():
                return "It is on its way."
            return look_up_order(text[-6:])["status"]
"""


def question(name, *texts, calls=(), **metadata):
    return {
        "id": name,
        "user_inputs": list(texts),
        "agents_evaluated": ["shop"],
        "metadata": metadata,
        "reference_data": {
            "reference_tool_interactions": [
                {"tool_name": "look_up_order", "input_arguments": {"order_id": order}} for order in calls
            ]
        },
    }


ORDERS = [
    question("first", "Where is A-1001", calls=["A-1001"], topic="status"),
    question("second", "Where is A-1002", "And A-1003", calls=["A-1002", "A-1003"], topic="status"),
]
REFUND = question("refund", "I want a refund", topic="money")


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with an agent and golden questions, which is the current one."""
    (tmp_path / "shop_agent.py").write_text(textwrap.dedent(SHOP))
    golden(tmp_path, [*ORDERS, REFUND])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("shop_agent", None)


def golden(folder, questions):
    (folder / "golden.json").write_text(json.dumps({"golden_questions": questions}))


def verdicts(run):
    return sorted((one.question_id, str(one.verdict)) for one in run.sessions)


def test_a_run_asks_each_question_in_a_session_of_its_own_and_grades_the_sessions(shop):
    done = spangrade("run", "shop_agent.py:answer", "golden.json", "--name", "candidate", "--format", "json")
    printed = json.loads("\n".join(done.out))
    assert done.code == 1
    assert sorted((one["question_id"], one["verdict"]) for one in printed["grades"]) == [
        ("first", "passed"),
        ("refund", "failed"),
        ("second", "passed"),
    ]
    with sg.open("spangrade.duckdb") as db:
        sessions = {one.question_id: one for one in db.sessions()}
        assert [one["name"] for one in db.list_runs()] == ["candidate"]
    assert [turn.user_input for turn in sessions["second"].turns] == ["Where is A-1002", "And A-1003"]
    assert [turn.final_response for turn in sessions["second"].turns] == ["sent", "sent"]
    assert [error.message for error in sessions["refund"].errors] == ["ValueError: no refunds"]


@pytest.mark.exhaustive
def test_a_question_that_flips_is_one_line_of_the_comparison(shop):
    golden(shop, ORDERS)
    assert spangrade("run", "shop_agent.py:answer", "golden.json", "--name", "base").code == 0
    (shop / "guess").touch()
    command = ["run", "shop_agent.py:answer", "golden.json", "--compare", "base", "--where"]
    done = spangrade(*command, "metadata.topic = status")
    reason = 'tool_usage_accuracy: missing: look_up_order{"order_id":"A-1001"}'
    assert done.code == 1
    assert f"first  passed → failed  {reason}" in spangrade(*command, "metadata.topic = status", "--all").out
    (shop / "guess").unlink()
    assert (
        "against base: 0 regressed, 0 fixed"
        in spangrade("run", "shop_agent:answer", "golden.json", "--compare", "base").out[1]
    )


def test_with_gates_the_comparison_decides_in_place_of_failed_sessions(shop):
    run = ["run", "shop_agent.py:answer", "golden.json", "--name"]
    assert spangrade(*run, "base").code == 1
    assert spangrade(*run, "same", "--compare", "base", "--fail-if", "regressed > 0").code == 0
    (shop / "guess").touch()
    assert spangrade(*run, "worse", "--compare", "base", "--fail-if", "regressed > 0").code == 1


@pytest.mark.exhaustive
def test_each_kind_of_callable_is_an_agent(shop):
    class Agent:
        def __call__(self, text):
            self.texts = [*getattr(self, "texts", []), text]
            return " ".join(self.texts)

    async def coroutine(text):
        await asyncio.sleep(0)
        return text

    def generator(text):
        yield from text.split()

    async def async_generator(text):
        for word in text.split():
            yield word

    asked = [question("one", "a b", "c")]
    options = RunOptions(agent_name="shop", repeat=2, concurrency=2)
    replies = {}
    for agent in (Agent, Agent(), coroutine, generator, async_generator):
        with sg.open(":memory:") as db:
            db.run(agent, asked, options=options)
            replies[agent] = [[turn.final_response for turn in one.turns] for one in db]
            assert all(one.agents == ("shop",) for one in db)
    of_class, of_object, *others = replies.values()
    assert of_class == [["a b", "a b c"]] * 2
    assert of_object != of_class
    assert others == [[["a b", "c"]] * 2, [["ab", "c"]] * 2, [["ab", "c"]] * 2]


def test_an_agent_that_does_not_answer_in_time_fails_its_session_and_holds_up_nothing(tmp_path):
    stuck = threading.Event()

    def answer(text):
        if text == "slow":
            stuck.wait(60)
        return text

    with sg.open(tmp_path / "db.duckdb") as db:
        started = time.monotonic()
        run = db.run(
            answer, [question("slow", "slow"), question("quick", "quick")], options=RunOptions(timeout=0.2)
        )
        assert time.monotonic() - started < 30
        errors = {one.question_id: [error.message for error in one.errors] for one in db}
    stuck.set()
    assert errors["quick"] == []
    assert re.fullmatch(
        r"AgentTimeoutError: it took \d\.\d s, expected at most 0.2 s \(the setting run.timeout\)",
        *errors["slow"],
    )
    assert dict(verdicts(run))["slow"] == "failed"


@pytest.mark.exhaustive
def test_what_the_limit_of_the_cost_leaves_out_is_named_and_completed_later(shop):
    command = ["run", "shop_agent.py:answer", "golden.json", "--name", "dear", "--repeat", "2"]
    where = ["--where", "metadata.topic = status"]
    done = spangrade(*command, *where, "--max-cost", "0.001")
    assert (done.code, done.out[0]) == (4, "2 sessions: 2 passed; 2 sessions not run")
    assert done.err == [
        (
            "spangrade: max_cost: $0.0024 spent: 2 sessions not run: first, second; "
            "--resume with a higher limit runs them"
        )
    ]
    assert spangrade(*command, *where, "--resume").code == 0
    with sg.open("spangrade.duckdb") as db:
        assert Counter(one.question_id for one in db) == {"first": 2, "second": 2}
        assert verdicts(db.runs()[-1]) == [("first", "passed")] * 2 + [("second", "passed")] * 2


@pytest.mark.exhaustive
def test_the_limit_of_the_cost_counts_what_a_run_to_complete_has_spent_before(shop):
    golden(shop, [question(f"q{n}", "Where is A-1001", calls=["A-1001"]) for n in range(4)])
    command = ["run", "shop_agent.py:answer", "golden.json", "--name", "dear"]
    assert spangrade(*command, "--max-cost", "0.001").code == 4  # 0.0008 a session: two are held
    for limit, held in (("0.001", 2), ("0.002", 3)):
        done = spangrade(*command, "--resume", "--max-cost", limit)
        with sg.open("spangrade.duckdb") as db:
            assert len(list(db)) == held
    assert done.err == [
        "spangrade: max_cost: $0.0024 spent: 1 session not run: q3; --resume with a higher limit runs them"
    ]


@pytest.mark.exhaustive
def test_a_run_to_complete_is_found_by_its_exact_name(shop):
    golden(shop, ORDERS)
    command = ["run", "shop_agent.py:answer", "golden.json"]
    for other in ("main@v2", "main@1f2e3d4c"):
        assert spangrade(*command, "--name", other).code == 0
    done = spangrade(*command, "--name", "main", "--resume")
    assert (done.code, done.err) == (
        2,
        ["spangrade: --resume: there is no run 'main' of an agent in spangrade.duckdb"],
    )
    assert spangrade(*command, "--name", "main@1f2e3d4c", "--resume").code == 0
    with sg.open("spangrade.duckdb") as db:
        assert len(list(db)) == 4


@pytest.mark.exhaustive
def test_a_question_with_another_text_is_asked_again_and_another_agent_is_named(shop):
    golden(shop, ORDERS)
    command = ["run", "shop_agent.py:answer", "golden.json", "--name", "n"]
    assert spangrade(*command).code == 0
    first = question("first", "Where on earth is A-1001", calls=["A-1001"])
    golden(shop, [first, ORDERS[1]])
    with (shop / "shop_agent.py").open("a") as file:
        file.write("# another version\n")
    sys.modules.pop("shop_agent")
    done = spangrade(*command, "--resume", "--format", "json")
    printed = json.loads("\n".join(done.out))
    assert (done.code, done.err) == (
        0,
        [
            (
                "spangrade: run n: held with another agent, or with its file as it was before, and not asked "
                "again: 1 session: second"
            ),
            "spangrade: run n: asked again, for the question has another text: 1 session: first",
        ],
    )
    with sg.open("spangrade.duckdb") as db:
        texts = {one.session_id: one.turns[0].user_input for one in db}
    assert sorted(texts.values()) == ["Where is A-1001", "Where is A-1002", "Where on earth is A-1001"]
    graded = [texts[one["session_id"]] for one in printed["grades"]]
    assert sorted(graded) == ["Where is A-1002", "Where on earth is A-1001"]


@pytest.mark.exhaustive
def test_a_run_that_was_killed_is_completed_without_the_interrupted_sessions(shop):
    golden(shop, [question(f"q{n}", "Where is A-1001", "And A-1002") for n in range(8)])
    slow = "\n\nimport time\n\ndef slow(text):\n    time.sleep(0.15)\n    return answer(text)\n"
    with (shop / "shop_agent.py").open("a") as file:
        file.write(slow)
    command = ["run", "shop_agent.py:slow", "golden.json", "--name", "long", "--no-references"]
    command += ["--metric", "turns_answered>=1", "--repeat", "3", "--concurrency", "2"]
    words, variables = with_variables(command)
    for number, end in enumerate((signal.SIGINT, signal.SIGKILL)):
        started = subprocess.Popen(
            [sys.executable, "-m", "spangrade", *words, *(["--resume"] if number else [])],
            env={**os.environ, **variables, "SPANGRADE_DB": str(shop / "spangrade.duckdb")},
            stderr=subprocess.PIPE,
            text=True,
        )
        until_stored(shop, 5_000 * (number + 1))
        started.send_signal(end)
        _, printed = started.communicate(timeout=60)
        assert started.returncode == (130 if end == signal.SIGINT else -signal.SIGKILL), printed
    assert spangrade(*command, "--resume").code == 0
    with sg.open("spangrade.duckdb") as db:
        complete = [one for one in db if "spangrade.complete" in (one.tags or ())]
        interrupted = [one for one in db if "spangrade.complete" not in (one.tags or ())]
        graded = {one.session_id for one in db.runs()[-1].sessions}
    assert Counter(one.question_id for one in complete) == {f"q{n}": 3 for n in range(8)}
    assert {len(one.turns) for one in complete} == {2}
    assert graded == {one.session_id for one in complete}
    assert interrupted
    assert any("spangrade.interrupted" in one.tags for one in interrupted)


def until_stored(folder, size):
    """Wait until the spool has as many bytes, or the run has ended."""
    spool = folder / "spangrade.duckdb.spool"
    for _ in range(600):
        if sum(file.stat().st_size for file in spool.glob("*.part")) >= size:
            return
        time.sleep(0.05)
    raise AssertionError("nothing was stored within 30 s")


@pytest.mark.parametrize(
    "tag", ["spangrade.repeat=x", "spangrade.repeat=", f"spangrade.repeat={'9' * 5_000}"]
)
@pytest.mark.short_form("tag", 4)
def test_a_session_of_a_planted_mark_is_no_repeat_of_a_run_that_is_resumed(shop, tag):
    recorded = Span(
        "1" * 32, "1" * 16, None, "invoke_agent shop", "INTERNAL", 10**18, 10**18 + 1,
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": "planted",
            "spangrade.question_id": "first",
            "spangrade.tags": ["spangrade.run=n@00000000", tag, "spangrade.complete"],
        },
    )  # fmt: skip
    with Store.open(shop / "spangrade.duckdb") as store:
        store.add([recorded])
    done = spangrade("run", "shop_agent.py:answer", "golden.json", "--name", "n", "--resume")
    assert done.code == 1
    with sg.open() as db:
        assert len(list(db)) == 4


def test_the_progress_has_the_passes_so_far_the_errors_and_the_cost(shop):
    steps = []
    with sg.open("db.duckdb", on_progress=steps.append) as db:
        db.run("shop_agent.py:answer", "golden.json")
    shown = [step.partition(" s left")[0].rpartition(",")[0] for step in steps if "running" in step]
    assert shown[1:] == [
        "running the agent: 1 of 3 sessions, 1 passed, $0.0008",
        "running the agent: 2 of 3 sessions, 2 passed, $0.0024",
        "running the agent: 3 of 3 sessions, 2 passed, 1 error, $0.0032",
    ]


def test_turns_start_no_faster_than_the_rate_allows(tmp_path):
    starts = []

    def answer(text):
        starts.append(time.monotonic())
        return text

    with sg.open(tmp_path / "db.duckdb") as db:
        db.run(
            answer,
            [question("one", *"abcd")],
            options=RunOptions(rate="20/s", concurrency=4, repeat=2, agent_name="shop"),
        )
    assert len(starts) == 8
    assert max(starts) - min(starts) >= 7 * 0.05 - 0.02


def test_a_turn_ends_with_the_answer_and_not_with_what_the_runner_does_then(tmp_path):
    def answer(text):
        return AgentTurn("sent", [ToolCall("look_up_order", {"order_id": "A-1001"}, {"status": "sent"})])

    with sg.open(tmp_path / "db.duckdb") as db:
        run = db.run(answer, ORDERS[:1], options=RunOptions(agent_name="shop"))
        (session,) = db
    (reported,) = session.tool_interactions
    assert session.turns[0].end_ns <= reported.start_ns
    assert verdicts(run) == [("first", "passed")]


def test_a_run_within_an_event_loop_has_a_loop_of_its_own(tmp_path):
    def answer(text):
        return AgentTurn("sent", [ToolCall("look_up_order", {"order_id": "A-1001"}, {"status": "sent"})])

    async def notebook():
        with sg.open(tmp_path / "db.duckdb") as db:
            return db.run(answer, ORDERS[:1], options=RunOptions(agent_name="shop"))

    assert verdicts(asyncio.run(notebook())) == [("first", "passed")]


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        ("nothing", "nothing: expected package.module:name or file.py:name"),
        ("missing.py:answer", "missing.py: no such file; expected package.module:name or file.py:name"),
        (
            "missing.module:answer",
            (
                "missing.module:answer: there is no module 'missing' here; "
                "expected package.module:name or file.py:name"
            ),
        ),
        (
            "shop_agent.py:reply",
            "shop_agent.py:reply: shop_agent.py has no 'reply'; expected package.module:name or file.py:name",
        ),
        (
            "needs.py:answer",
            "needs.py:answer: it needs the package 'a_framework', which is not installed",
        ),
    ],
)
def test_an_agent_that_cannot_be_found_is_named_before_anything_runs(shop, agent, problem):
    (shop / "needs.py").write_text("import a_framework\n")
    done = spangrade("run", agent, "golden.json")
    assert (done.code, done.err) == (2, [f"spangrade: {problem}"])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            ["--rate", "fast"],
            "$SPANGRADE_RUN_RATE: run.rate: expected a rate such as 60/m or 2/s, found 'fast'",
        ),
        (["--timeout", "0s"], "$SPANGRADE_RUN_TIMEOUT: run.timeout: expected more than 0 seconds, found 0s"),
        (
            ["--timeout", "0", "--wait", "2"],
            "$SPANGRADE_RUN_TIMEOUT: run.timeout: expected more than 0 seconds, found 0",
        ),
        (["--name", "x", "--resume"], "--resume: there is no run 'x' of an agent in spangrade.duckdb"),
        (["--where", "cost_usd > 1"], "--where: it chooses questions here: expected metadata.KEY = VALUE"),
    ],
)
def test_options_that_cannot_be_used_are_named(shop, options, problem):
    done = spangrade("run", "shop_agent.py:answer", "golden.json", *options)
    assert (done.code, done.err) == (2, [f"spangrade: {problem}"])


def test_a_question_that_stands_for_any_value_cannot_be_asked(tmp_path):
    asked = {**question("any", "Where is {order}"), "user_values": ["order"]}
    with sg.open(tmp_path / "db.duckdb") as db, pytest.raises(InputError, match="order stands for any"):
        db.run(lambda text: text, GradeSpec([asked]))


def test_the_sessions_that_a_folder_brings_are_not_graded(tmp_path):
    with sg.open(tmp_path / "db.duckdb") as db:
        run = db.run(lambda text: text, SAMPLE)
        assert {one.session_id for one in run.sessions} == {one.session_id for one in db}


@pytest.mark.exhaustive
def test_the_settings_give_what_a_command_does_not(shop):
    golden(shop, ORDERS)
    (shop / "spangrade.toml").write_text(
        'database = "kept.duckdb"\n[run]\nagent = "shop_agent.py:answer"\n'
        'dataset = "golden.json"\nrepeat = 2\n'
    )
    (shop / "sub").mkdir()
    done = run_spangrade("run", cwd=shop / "sub")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "4 sessions: 4 passed")
    (shop / "one.json").write_text(json.dumps({"golden_questions": [REFUND]}))
    done = spangrade("run", "one.json", "--repeat", "1")
    assert (done.code, "1 session: 1 failed" in done.out) == (1, True)
    done = spangrade("run", "shop_agent:answer", "one.json")
    assert (done.code, "2 sessions: 2 failed" in done.out) == (1, True)
    with sg.open() as db:
        assert dict(verdicts(db.run(options=RunOptions(concurrency=2)))) == {
            "first": "passed",
            "second": "passed",
        }
        assert len(db.run(lambda text: text, [REFUND], options=RunOptions(repeat=1)).sessions) == 1


def test_without_settings_the_agent_and_the_dataset_are_asked_for(shop):
    done = spangrade("run", "golden.json")
    problem = "spangrade: AGENT: expected an agent, here or in the table `run` of the settings"
    assert (done.code, done.err) == (2, [problem])
    done = spangrade("run", "--http", "http://localhost:1/turn")
    assert done.code == 2
    assert "expected DATASET, here or in the table `run` of the settings" in " ".join(done.err)
    with sg.open("db.duckdb") as db, pytest.raises(InputError, match="dataset: expected golden questions"):
        db.run("shop_agent.py:answer")


@pytest.mark.parametrize(
    ("package", "says"),
    [
        (
            "crewai",
            "pip install openinference-instrumentation-crewai, then from openinference.instrumentation",
        ),
        ("own_framework", None),
    ],
)
@pytest.mark.short_form("package", 2)
def test_a_run_names_the_package_that_records_the_spans_of_the_agents_framework(
    package, says, tmp_path, monkeypatch
):
    (tmp_path / package).mkdir()
    (tmp_path / package / "agent.py").write_text("")
    (tmp_path / "agent_of_it.py").write_text(f"import {package}.agent\ndef answer(text): return 'Yes.'\n")
    golden(tmp_path, [{"id": "q1", "user_inputs": ["Any soil?"]}])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for framework in FRAMEWORKS:  # which other tests have loaded
        monkeypatch.delitem(sys.modules, framework.module, raising=False)
    done = spangrade("run", "agent_of_it.py:answer", "golden.json")
    for name in (package, f"{package}.agent", "agent_of_it"):
        sys.modules.pop(name, None)
    said = [line for line in done.err if "no model call has a span" in line]
    assert [says in line for line in said] == ([True] if says else [])


def test_the_lines_that_a_run_names_are_those_of_the_guide():
    guide = (ROOT / "docs" / "recording.md").read_text(encoding="utf-8")
    for framework in FRAMEWORKS:
        assert [line for line in framework.lines.split("; ") if line not in guide] == []
