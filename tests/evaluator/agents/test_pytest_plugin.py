"""The plugin in pytest runs of their own, with the real plugins for xdist, repeats and asyncio."""

import contextlib
import importlib
import json
import re
import shlex
import sys
import tomllib
from fnmatch import fnmatch
from xml.dom import minidom

import command_line
import pytest
from gemini_standin import decision, gemini_standin
from packaging.requirements import Requirement
from paths import ROOT

# Imported before the runs inside this process, which forget what they import: DuckDB cannot be loaded twice.
import spangrade
import spangrade.evaluator.conversation_runner

pytest_plugins = ["pytester"]


@pytest.fixture(scope="module", autouse=True)
def _loaded():
    """Nor can the client of Gemini and what it imports late: its transport would not know its own errors."""
    for module in ("google.genai", "httpcore", "httpcore2", "aiohttp"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


EVALS = """
import pytest
from spangrade.evaluator.turn import AgentTurn, UserTurn

pytestmark = pytest.mark.asyncio

async def test_greets(conversation):
    await conversation(lambda text: "Hi there", [UserTurn("Hello"), AgentTurn("<greets>")]).run()
"""


@pytest.fixture
def gemini(monkeypatch, tmp_path):
    """The stand-in of Gemini, which says yes; runs in other processes find it by the client's variables."""
    monkeypatch.setenv("GEMINI_API_KEY", "key of the stand-in")
    monkeypatch.setenv("SPANGRADE_JUDGE_CACHE", str(tmp_path / "cache" / "verdicts.sqlite"))
    with gemini_standin() as standin:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", standin.url)
        yield standin


@pytest.fixture
def no_key(monkeypatch, tmp_path):
    for variable in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("SPANGRADE_JUDGE_CACHE", str(tmp_path / "cache" / "verdicts.sqlite"))


class Loaded:
    """A plugin that keeps our modules: pytester forgets those that a run inside this process imports first.

    Loaded again, their classes would not be those that other tests of this process have.
    """

    def __init__(self):
        self.modules = {}

    def pytest_unconfigure(self):
        self.modules |= {
            name: module
            for name, module in sys.modules.items()
            if name.partition(".")[0] == "spangrade" and not name.endswith(".pytest_plugin")
        }


@pytest.fixture
def loaded():
    """Keep the modules beyond the end of pytester, which is made after this."""
    kept = Loaded()
    yield kept
    sys.modules.update(kept.modules)


@pytest.fixture
def run(loaded, pytester, monkeypatch):
    """Run pytest on a file of tests; the result has the lines of the evals' summary apart.

    In CI pytest prints more, and the plugin a hint: tests of that set CI themselves. Only where it matters
    does it run in a process of its own, which imports the client of Gemini for 2 s.
    """

    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("BUILD_NUMBER", raising=False)

    def run(text, *options, apart=False):
        pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
        pytester.makepyfile(test_it=text)
        options = ("--strict-markers", "-p", "no:cacheprovider", *options)
        if apart:
            result = pytester.runpytest_subprocess(*options)
        else:
            result = pytester.runpytest_inprocess(*options, plugins=[loaded])
            sys.modules.update(loaded.modules)
        lines = result.outlines
        start = next((i for i, line in enumerate(lines) if re.fullmatch("=+ agent evals =+", line)), None)
        rest = [] if start is None else lines[start + 1 :]
        end = next((i for i, line in enumerate(rest) if line.startswith("=")), len(rest))
        result.evals = rest[:end]
        return result

    return run


@pytest.mark.exhaustive
def test_an_eval_is_repeated_on_all_workers_and_its_pass_rate_told(run, gemini):
    """run with multiple counts automatically load balanced across all available workers"""
    result = run(EVALS, "--count", "8", "-n", "2", apart=True)
    result.assert_outcomes(passed=8)
    rate, at, hat, judge = result.evals
    assert rate == "test_it.py::test_greets: 8 of 8 passed, 100% (95% interval 68% to 100%)"
    ones = "1: 100.0%, 2: 100.0%, 3: 100.0%, 4: 100.0%, 5: 100.0%, 8: 100.0%; an interval needs 20 tests"
    assert (at, hat) == (f"pass@k over 1 test: {ones}", f"pass^k over 1 test: {ones}")
    assert re.fullmatch(
        r"judge gemini/\S+: 1 call, 7 cache hits, 1000 tokens in, 100 out, (\$0\.\d{6}|cost unknown)", judge
    )
    assert gemini.calls == 1


def test_pass_rates_count_every_run_and_name_those_without_a_verdict(run, no_key):
    result = run(
        """
        import pytest

        @pytest.fixture
        def broken():
            raise RuntimeError

        @pytest.mark.agent_eval
        @pytest.mark.parametrize("limit", [2, 3])
        def test_some(request, limit):
            assert request.node.callspec.params["__pytest_repeat_step_number"] < limit

        @pytest.mark.agent_eval
        def test_setup(broken):
            pass

        @pytest.mark.agent_eval
        @pytest.mark.xfail
        def test_known():
            assert False

        @pytest.mark.agent_eval
        def test_undecided():
            from spangrade.evaluator.similarity_utils import is_similar_text
            assert is_similar_text("Hi", "<greets>")

        @pytest.mark.agent_eval
        @pytest.mark.skip
        def test_skipped():
            pass

        def test_no_eval():
            pass
        """,
        *("--count", "4"),
    )
    assert result.evals == [
        "test_it.py::test_some[2]: 2 of 4 passed, 50% (95% interval 15% to 85%)",
        "test_it.py::test_some[3]: 3 of 4 passed, 75% (95% interval 30% to 95%)",
        "test_it.py::test_setup: 0 of 4 passed, 0% (95% interval 0% to 49%)",
        "test_it.py::test_known: 0 of 4 passed, 0% (95% interval 0% to 49%)",
        "test_it.py::test_undecided: 0 of 4 passed, 0% (95% interval 0% to 100%), 4 not judged (no key)",
        "test_it.py::test_skipped: 0 of 4 passed, 0% (95% interval 0% to 100%), 4 skipped",
        "pass@k over 6 tests: 1: 20.8%, 2: 30.6%, 3: 33.3%, 4: 33.3%; an interval needs 20 tests",
        "pass^k over 6 tests: 1: 20.8%, 2: 11.1%, 3: 4.2%, 4: 0.0%; an interval needs 20 tests",
        "judge gemini/gemini-3.8-flash: 0 calls, 0 cache hits, 0 tokens in, 0 out, $0.000000",
    ]


def test_without_a_key_what_needs_the_judge_is_skipped(run, no_key):
    """Tests are automatically skipped if API key is not available"""
    result = run(EVALS, "-rs")
    result.assert_outcomes(skipped=1)
    [reason] = [line for line in result.outlines if line.startswith("SKIPPED")]
    assert "GEMINI_API_KEY" in reason


HOSTILE = """
import pytest
from spangrade.evaluator.turn import AgentTurn, UserTurn

TEXTS = (
    "\\x1b[2J\\x1b]0;owned\\x07", "a\\x00b", "\\ud800", "a\\u202eb", "x" * 200_000, "]]><script>",
    "../../../etc/passwd",
    "a\\nFAILED forged", "{0.__class__}%n", "[" * 5000,
)

@pytest.mark.asyncio
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
async def test_raises(conversation, text):
    def agent(_):
        raise RuntimeError(text)
    await conversation(agent, [UserTurn(text), AgentTurn("hello")]).run()
"""


@pytest.mark.exhaustive
def test_whatever_an_agent_is_asked_and_raises_is_stored_and_the_junit_file_can_be_read(
    run, no_key, pytester
):
    result = run(HOSTILE, "--spangrade-db", "runs.duckdb", "--junit-xml", "junit.xml")
    result.assert_outcomes(failed=10)
    written = minidom.parse(str(pytester.path / "junit.xml"))  # noqa: S318 (pytest wrote it)
    assert len(written.getElementsByTagName("testcase")) == 10
    listed = command_line.run("sessions", "--all", "--db", pytester.path / "runs.duckdb", "--format", "json")
    assert (listed.code, len(json.loads("\n".join(listed.out)))) == (0, 10)


def test_a_mismatch_is_shown_turn_by_turn_and_its_session_is_kept(run, gemini, pytester):
    gemini.answer = lambda request: decision(False, "it says goodbye")
    result = run(EVALS, "--spangrade-db", "runs.duckdb")
    result.assert_outcomes(failed=1)
    assert str(result.stdout).count("it says goodbye") == 1
    *shown, command = (line.removeprefix("E").strip() for line in result.outlines if line.startswith("E  "))
    assert shown == [
        "spangrade.evaluator.conversation_runner.ConversationMismatch: the agent's answer is not as expected",
        "user: Hello",
        "agent: Hi there",
        "turn 2.text: it says goodbye",
        "expected: '<greets>'",
        "actual:   'Hi there'",
    ]
    assert not any("expected_conversation.py" in line for line in result.outlines)
    opened = command_line.spangrade(*shlex.split(command)[1:], "--format", "json", cwd=pytester.path)
    [turn] = json.loads(opened.stdout)["turns"]
    assert (turn["user_input"], turn["final_response"]) == ("Hello", "Hi there")


def test_a_plain_assert_of_a_similarity_shows_what_differs(run, gemini):
    gemini.answer = lambda request: decision(False, "it says goodbye")
    result = run(
        """
        import pytest
        from spangrade.evaluator.similarity_utils import Similarity, is_similar_dict, is_similar_text

        def test_outside_of_a_loop():
            assert is_similar_text("Bye", "<greets>")

        @pytest.mark.asyncio
        async def test_inside():
            assert await is_similar_text("So long", "<greets>")

        @pytest.mark.asyncio
        async def test_compared():
            assert await is_similar_dict({"a": {"b": 1}, "c": 2}, {"a": {"b": 3}}) == Similarity()
        """
    )
    result.assert_outcomes(failed=3)
    assert str(result.stdout).count("it says goodbye") == 2
    for actual in ("Bye", "So long"):
        result.stdout.fnmatch_lines(
            [
                "*- what differs -*",
                "value: it says goodbye",
                "  expected: '<greets>'",
                f"  actual:   '{actual}'",
            ]
        )
    result.stdout.fnmatch_lines(
        [
            "E*assert Similarity == Similarity",
            "E*value.a.b: values that are not strings must be equal",
            "E*  expected: 3",
            "E*  actual:   1",
            "E*value.c: unexpected key",
        ]
    )


def test_a_key_that_is_missing_in_a_fixture_skips_the_test_and_names_it(run, no_key):
    result = run(
        """
        import unittest
        import pytest
        from spangrade.evaluator.similarity_utils import is_similar_text

        @pytest.fixture(scope="module")
        def greeted():
            assert is_similar_text("Hi", "<greets>")

        def test_one(greeted):
            pass

        def test_two(greeted):
            pass

        class TestThree(unittest.TestCase):
            def test_three(self):
                self.assertTrue(is_similar_text("Hi", "<greets>"))
        """,
        "-rs",
    )
    result.assert_outcomes(skipped=3)
    skipped = [line for line in result.outlines if line.startswith("SKIPPED")]
    for line, name in zip(skipped, ["test_one", "test_two", "TestThree::test_three"], strict=True):
        assert re.match(
            rf"SKIPPED \[1\] test_it.py:\d+: test_it.py::{name} cannot be judged: .*GEMINI_API_KEY", line
        )


def test_with_judge_required_what_could_not_be_judged_fails(run, no_key, monkeypatch):
    monkeypatch.setenv("CI", "true")
    result = run(EVALS, "--judge-required")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["test_it.py::test_greets cannot be judged: *GEMINI_API_KEY*(--judge-required)"]
    )
    assert result.evals[0] == (
        "test_it.py::test_greets: 0 of 1 passed, 0% (95% interval 0% to 100%), 1 not judged (no key)"
    )
    assert not any("skipped because" in line for line in result.evals)


@pytest.mark.parametrize("ci", ["true", ""])
def test_in_ci_a_hint_names_the_option(run, no_key, monkeypatch, ci):
    monkeypatch.setenv("CI", ci)
    result = run(
        """
        from spangrade.evaluator.similarity_utils import is_similar_text

        def test_not_marked():
            assert is_similar_text("Hi", "<greets>")
        """
    )
    result.assert_outcomes(skipped=1)
    hint = "1 test was skipped because the judge has no key; --judge-required fails such tests"
    assert (hint in result.evals) is (ci == "true")


def test_an_outage_of_the_judge_fails_the_test_but_is_no_failure_of_the_agent(run, gemini):
    gemini.failures = [400]
    result = run(EVALS, "--count", "3")
    result.assert_outcomes(failed=1, passed=2)
    result.stdout.fnmatch_lines(["test_it.py:7: the agent could not be judged: judge gemini/*: 400 *"])
    assert result.evals[0] == (
        "test_it.py::test_greets: 2 of 3 passed, 67% (95% interval 21% to 100%), 1 not judged (judge failed)"
    )


def test_a_group_of_the_judges_errors_is_the_judges(run, gemini):
    gemini.failures = [400, 400]
    result = run(
        """
        import asyncio
        import pytest
        from spangrade.evaluator.similarity_utils import is_similar_text

        async def judged(text):
            assert await is_similar_text("Hi", text)

        @pytest.mark.agent_eval
        @pytest.mark.asyncio
        async def test_two():
            async with asyncio.TaskGroup() as group:
                group.create_task(judged("<greets>"))
                group.create_task(judged("<is short>"))
        """
    )
    result.assert_outcomes(failed=1)
    assert result.evals[0].endswith("1 not judged (judge failed)")


UNMARKED = """
def test_it():
    from spangrade.evaluator.similarity_utils import is_similar_text
    assert is_similar_text("Hi", "<greets>")
"""


def test_the_judges_budget_holds_in_tests_without_a_marker(run, gemini):
    result = run(UNMARKED, "--judge-max-calls", "0")
    result.assert_outcomes(failed=1)
    assert gemini.calls == 0
    [judge] = result.evals
    assert re.fullmatch(r"judge gemini/\S+: 0 calls, 0 cache hits, 0 tokens in, 0 out, \$0.000000", judge)


@pytest.mark.parametrize(("budget", "calls"), [("0", 0), ("5", 1)])
def test_a_grade_in_a_test_has_the_judge_and_the_budget_of_the_test_run(run, gemini, budget, calls):
    gemini.answer = lambda request: decision(True, "the same", 5)
    result = run(
        """
        from pathlib import Path
        import spangrade
        from otlp_sessions import Said, write_golden, write_sessions

        def test_grade():
            write_golden(Path("golden.json"), {"id": "q", "user_inputs": ["Hi"], "reference_response": "Bye"})
            write_sessions(Path("spans.jsonl"), [("s1", [Said("Hi", "Goodbye")])])
            spangrade.open("spans.duckdb").grade("golden.json", spans=["spans.jsonl"])
        """,
        *("--judge-max-calls", budget),
    )
    result.assert_outcomes(passed=1)
    assert gemini.calls == calls
    [judge] = result.evals
    assert re.match(rf"judge gemini/\S+: {calls} call", judge)


def test_votes_and_threshold_hold_in_tests_without_a_marker_and_their_cost_is_printed(run, gemini):
    gemini.answer = lambda request: decision(True, "it greets", 0.6)
    options = ("--judge-model", "gemini-2.5-flash", "--judge-votes", "3")
    passed = run(UNMARKED, *options)
    passed.assert_outcomes(passed=1)
    cost = "3 calls, 0 cache hits, 3000 tokens in, 300 out, $0.001650"
    assert passed.evals == [f"judge gemini/gemini-2.5-flash: {cost}"]
    failed = run(UNMARKED, *options, "--judge-threshold", "0.7")
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["*it greets (3 of 3 votes) (score 0.6 is below 0.7)"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--judge-model", "nobody/x"), "judge 'nobody/x': no provider 'nobody' is installed*"),
        (("--judge-model", "gemini-9"), "judge gemini/gemini-9: 404: *does not exist"),
        (("--judge-votes", "2"), "--judge-votes: expected an odd number*"),
        (("--judge-max-calls", "-1"), "--judge-max-calls: expected 0 or more, found -1"),
        ((), "judge gemini/gemini-8: 404: *does not exist"),
    ],
)
def test_an_unknown_judge_is_reported_once_before_any_test_runs(run, gemini, monkeypatch, options, message):
    gemini.models = {"gemini-2.5-flash"}
    monkeypatch.setenv("SPANGRADE_JUDGE_MODEL", "gemini-8")
    result = run(EVALS, *options, "--count", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    [error] = [line for line in result.errlines if line.strip()]
    assert fnmatch(error, f"ERROR: {message}")
    assert gemini.calls == 0


@pytest.mark.exhaustive
def test_on_workers_too_the_environments_model_is_checked_before_any_test_runs(run, gemini, monkeypatch):
    gemini.models = set()
    monkeypatch.setenv("SPANGRADE_JUDGE_MODEL", "gemini-8")
    result = run(EVALS, "-n", "2", apart=True)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    [error] = [line for line in result.errlines if line.strip()]
    assert fnmatch(error, "ERROR: judge gemini/gemini-8: 404: *does not exist")


CONVERSATIONS = """
import asyncio
import pytest
from spangrade import tracer
from spangrade.evaluator.conversation_runner import ConversationRunner
from spangrade.evaluator.turn import AgentTurn, ToolCall, UserTurn

look = tracer.tool("look")(lambda **arguments: {"found": True})
CALLS = [ToolCall("look", {"at": "a"}, {"found": True}), ToolCall("look", {"at": "b"}, None)]
EXPECTED_CALLS = [ToolCall("look", {"at": "*"}), ToolCall("look", {"at": "b"})]
EXPECTED = [UserTurn("Hello"), AgentTurn("Hi", EXPECTED_CALLS)]

def agent(text):
    return AgentTurn("Hi", CALLS)

def traced(text):
    look(at="a")
    look(at="b")
    return "Hi"
"""


def test_a_conversation_that_is_not_held_fails_the_test(run, no_key):
    result = run(
        CONVERSATIONS
        + """
def test_not_awaited():
    ConversationRunner(agent, EXPECTED).run()

@pytest.mark.asyncio
async def test_not_awaited_in_a_loop():
    ConversationRunner(agent, EXPECTED).run()

@pytest.mark.asyncio
async def test_left_behind():
    task = asyncio.create_task(ConversationRunner(agent, EXPECTED).run())
    await asyncio.sleep(0)

@pytest.mark.asyncio
async def test_awaited():
    await asyncio.gather(*(ConversationRunner(agent, EXPECTED).run() for _ in range(3)))

def test_run():
    asyncio.run(ConversationRunner(agent, EXPECTED).run())
""",
    )
    result.assert_outcomes(failed=3, passed=2)
    assert "never awaited" not in str(result.stdout)  # Python's warning, which says no more
    result.stdout.fnmatch_lines(
        ["test_it.py:21: the conversation was not held to its end: ConversationRunner.run() is not awaited*"]
    )


def test_a_conversation_runs_without_await_inside_of_a_loop_and_outside(run, no_key):
    result = run(
        CONVERSATIONS
        + """
def test_outside():
    turns = ConversationRunner(agent, EXPECTED).run_sync()
    assert turns == [UserTurn("Hello"), AgentTurn("Hi", CALLS)]

@pytest.mark.asyncio
async def test_inside():
    assert len(ConversationRunner(traced, EXPECTED).run_sync()) == 2

def test_mismatch():
    with pytest.raises(AssertionError, match="not as expected"):
        ConversationRunner(agent, [UserTurn("Hello"), AgentTurn("Hi", [])]).run_sync()

@pytest.mark.asyncio
async def test_agent_of_the_running_loop():
    ready = asyncio.get_running_loop().create_future()

    async def agent(text):
        await ready

    with pytest.raises(RuntimeError) as raised:
        ConversationRunner(agent, EXPECTED).run_sync()
    assert "write `await runner.run()`" in "".join(raised.value.__notes__)
"""
    )
    result.assert_outcomes(passed=4)


@pytest.mark.exhaustive
def test_a_conversation_is_kept_whole_whatever_the_environment_samples(run, no_key, pytester, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    result = run(
        CONVERSATIONS
        + """
def test_sync():
    ConversationRunner(traced, EXPECTED).run_sync()
""",
        *("--spangrade-db", "runs.duckdb"),
        apart=True,
    )
    result.assert_outcomes(passed=1)
    [kept] = spangrade.open(pytester.path / "runs.duckdb").sessions()
    assert kept.sampled is False
    assert kept.tool_interactions


def test_all_conversations_are_kept_however_they_are_held_with_the_calls_that_were_compared(
    run, no_key, pytester
):
    result = run(
        CONVERSATIONS
        + """
@pytest.mark.asyncio
async def test_plain():
    await ConversationRunner(agent, EXPECTED).run()

def test_sync():
    ConversationRunner(traced, EXPECTED).run_sync()

@pytest.mark.asyncio
async def test_sync_in_a_loop():
    ConversationRunner(agent, EXPECTED).run_sync()

@pytest.mark.asyncio
@pytest.mark.agent_eval
async def test_marked():
    await ConversationRunner(traced, EXPECTED).run()

@pytest.mark.asyncio
async def test_fixture(conversation):
    await conversation(agent, EXPECTED).run()

@pytest.fixture(scope="module")
def held():
    return ConversationRunner(agent, EXPECTED, name="held").run_sync()

def test_in_a_fixture(held):
    pass

def test_in_a_file_of_its_own():
    ConversationRunner(agent, EXPECTED, store="other.duckdb").run_sync()
""",
        *("--spangrade-db", "runs.duckdb"),
    )
    result.assert_outcomes(passed=7)
    assert result.evals[-1] == "sessions: spangrade sessions --db runs.duckdb"
    kept = spangrade.open(pytester.path / "runs.duckdb").sessions()
    sessions = {session.session_id.rpartition("-")[0]: session for session in kept}
    tests = ("plain", "sync", "sync_in_a_loop", "marked", "fixture")
    assert sorted(sessions) == sorted(["held", *(f"test_it.py::test_{name}" for name in tests)])
    reported = [("look", {"at": "a"}, {"found": True}), ("look", {"at": "b"}, None)]
    traced = [("look", {"at": "a"}, {"found": True}), ("look", {"at": "b"}, {"found": True})]
    for name, session in sessions.items():
        calls = [(one.tool_name, one.input_arguments, one.output) for one in session.tool_interactions]
        assert calls == (traced if name in {"test_it.py::test_sync", "test_it.py::test_marked"} else reported)


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.short_form("workers", 2)
def test_the_budget_of_calls_is_the_runs_whatever_the_number_of_workers(run, gemini, workers):
    evals = (
        EVALS
        + """
@pytest.mark.parametrize("name", "abcdef")
async def test_names(conversation, name):
    await conversation(lambda text: "Hi there", [UserTurn("Hello"), AgentTurn(f"<says {name}>")]).run()
"""
    )
    result = run(evals, "--judge-max-calls", "4", "-n", workers, apart=workers != "0")
    result.assert_outcomes(passed=4, failed=3)
    assert gemini.calls == 4


def test_the_judges_model_is_an_option(run, gemini):
    result = run(EVALS, "--judge-model", "gemini-x", "--judge-max-cost", "1")
    assert (
        result.evals[1]
        == "judge gemini/gemini-x: 1 call, 0 cache hits, 1000 tokens in, 100 out, cost unknown"
    )
    [request] = gemini.requests
    assert request.path.endswith("/models/gemini-x:generateContent")


def test_the_plugin_needs_no_other_plugin(run, gemini):
    result = run(
        """
        import asyncio
        from spangrade.evaluator.turn import AgentTurn, UserTurn

        def test_greets(conversation):
            asyncio.run(conversation(lambda text: "Hi", [UserTurn("Hello"), AgentTurn("<greets>")]).run())
        """,
        *(option for name in ("asyncio", "xdist", "repeat", "cov") for option in ("-p", f"no:{name}")),
    )
    result.assert_outcomes(passed=1)
    assert result.evals[0] == "test_it.py::test_greets: 1 of 1 passed, 100% (95% interval 21% to 100%)"


def test_a_run_without_evals_is_as_it_was(run):
    result = run(
        """
        import sys

        def test_imports():
            judge = "spangrade.evaluator.judge.protocol"
            heavy = {"duckdb", "google.genai", "opentelemetry", "pydantic", judge}
            assert not heavy & set(sys.modules)

        def test_failure():
            assert {"a": 1} == {"a": 2}
        """,
        *("-p", "no:hypothesispytest"),
        apart=True,
    )
    result.assert_outcomes(passed=1, failed=1)
    assert result.evals == []


def test_the_tests_of_the_page_pass_as_they_stand(run, gemini):
    page = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python.*?\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    result = run("\n".join(blocks), "-o", "asyncio_mode=auto")
    result.assert_outcomes(passed=4)
    assert [request.criterion for request in gemini.requests] == ["mentions degrees in Celsius"]


def test_dev_brings_the_documents_pytest_plugins():
    """Installs dev pytest dependencies; ensure the following are added as dependencies"""
    document = ["pytest==8.4.2", "pytest-asyncio==1.2.0", "pytest-cov==7.0.0"]
    document += ["pytest-xdist==3.8.0", "pytest-repeat==0.9.4"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    dev = {(one := Requirement(text)).name: one for text in project["optional-dependencies"]["dev"]}
    for name, version in (pinned.split("==") for pinned in document):
        assert dev[name].specifier.contains(version)


FLAKY = """
    import pytest
    from spangrade.evaluator.turn import AgentTurn, ToolCall, UserTurn

    pytestmark = pytest.mark.asyncio

    @pytest.mark.parametrize("order", [1, 2])
    async def test_refunds(conversation, request, order):
        step = request.node.callspec.params["__pytest_repeat_step_number"]

        async def agent(text):
            made = [ToolCall("find_order", {"id": order}, "found")]
            if step < 3:
                made.append(ToolCall("refund", {"amount": 5 if step else 6}, "done"))
            return AgentTurn("Done.", tool_calls=made)

        expected = [UserTurn("Refund it"), AgentTurn("Done.")]
        turns = await conversation(agent, expected).run()
        calls = turns[-1].tool_calls
        assert order == 1 or calls[-1].name == "refund"
"""


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.short_form("workers", 2)
def test_repeated_tests_have_pass_at_k_and_pass_hat_k_and_the_call_at_which_runs_part(run, workers):
    result = run(FLAKY, "--count", "4", "-n", workers, apart=workers != "0")
    result.assert_outcomes(passed=7, failed=1)
    assert [line for line in result.evals if not line.startswith("test_it.py") or "flaky" in line] == [
        "pass@k over 2 tests: 1: 87.5%, 2: 100.0%, 3: 100.0%, 4: 100.0%; an interval needs 20 tests",
        "pass^k over 2 tests: 1: 87.5%, 2: 75.0%, 3: 62.5%, 4: 50.0%; an interval needs 20 tests",
        "test_it.py::test_refunds[2] is flaky: step 2: refund (3 of 3 passed), the end (0 of 1 passed)",
    ]


STORED = """
from spangrade.evaluator.conversation_runner import ConversationRunner
from spangrade.evaluator.turn import AgentTurn, ToolCall, UserTurn

def shop(text):
    return AgentTurn("sent", [ToolCall("look_up", {"id": "A-1"}, {"status": "sent"})])

def test_status():
    ConversationRunner(shop, [UserTurn("Where is A-1?"), AgentTurn("sent", [ToolCall("look_up")])]).run_sync()

def test_refund():
    ConversationRunner(shop, [UserTurn("A refund"), AgentTurn("*", [ToolCall("refund")])]).run_sync()

def test_checks_more():
    held = ConversationRunner(shop, [UserTurn("Hi"), AgentTurn("sent")]).run_sync()
    assert held[-1].text == "late"

def test_is_no_eval():
    assert False
"""


def stored_run(folder):
    """The newest run, with the verdicts and reasons of its questions."""
    with spangrade.open(folder / "runs.duckdb") as db:
        run = db.runs()[-1]
        failed = {one.question_id or one.session_id for one in db.sessions(failed=True)}
    return run, sorted((one.question_id, str(one.verdict), one.reason) for one in run.sessions), failed


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.short_form("workers", 2)
def test_the_evals_are_stored_as_a_run_with_their_verdicts_and_reasons(run, pytester, workers):
    if workers:
        option = ("--spangrade-db", "runs.duckdb")
    else:  # the database of the settings is used without the option
        option = ()
        pytester.makefile(".toml", spangrade='database = "runs.duckdb"')
    done = run(STORED, *option, "--spangrade-run", "candidate", "-n", str(workers), apart=True)
    done.assert_outcomes(passed=1, failed=3)
    assert "base_events.py" not in done.stdout.str()  # a traceback ends in the test
    stored, verdicts, failed = stored_run(pytester.path)
    assert stored.name == "candidate"
    assert [verdict[:2] for verdict in verdicts] == [
        ("test_it.py::test_checks_more", "failed"),
        ("test_it.py::test_refund", "failed"),
        ("test_it.py::test_status", "passed"),
    ]
    assert "AssertionError" in verdicts[0][2]
    assert "other tools were called" in verdicts[1][2]
    assert len(failed) == 2
    named = "runs.duckdb" if workers else pytester.path / "runs.duckdb"
    assert done.evals[-2] == f"run candidate: spangrade runs --db {named}"
    shown = command_line.spangrade("sessions", "--failed", "--db", "runs.duckdb", cwd=pytester.path)
    assert shown.stdout.count("failed") == 2
    # What a test expects is the question of its session.
    query = "SELECT question FROM golden_questions WHERE question->>'id' LIKE '%test_status'"
    with spangrade.open(pytester.path / "runs.duckdb") as db:
        (row,) = db.sql(query)
    question = json.loads(row["question"]) if isinstance(row["question"], str) else row["question"]
    assert question["user_inputs"] == ["Where is A-1?"]
    assert question["reference_data"]["reference_tool_interactions"] == [{"tool_name": "look_up"}]
    assert question["reference_data"]["reference_response"] == "sent"


@pytest.mark.exhaustive
def test_repeats_are_sessions_of_one_question_and_two_runs_are_compared(run, pytester):
    options = ("--count", "2", "--spangrade-db", "runs.duckdb", "--spangrade-run")
    run(STORED, *options, "main", apart=True)
    fixed = STORED.replace('[ToolCall("refund")]', '[ToolCall("look_up")]').replace('"late"', '"sent"')
    run(fixed, *options, "fixed", apart=True)
    _, verdicts, _ = stored_run(pytester.path)
    assert [name for name, _, _ in verdicts].count("test_it.py::test_refund") == 2
    with spangrade.open(pytester.path / "runs.duckdb") as db:
        compared = db.compare("main", "fixed", allow_changed_questions=True).comparison
    assert [flip.key for flip in compared.fixed] == [
        "test_it.py::test_checks_more",
        "test_it.py::test_refund",
    ]


RERUN = """
from pathlib import Path
import pytest
from spangrade.evaluator.conversation_runner import ConversationRunner
from spangrade.evaluator.turn import AgentTurn, ToolCall, UserTurn

@pytest.mark.parametrize("order", ["1", "2"])
def test_order(order):
    tried = Path(f"tried-{order}")
    made = [ToolCall("look_up", {"id": order})] if order == "1" or tried.exists() else []
    tried.touch()
    expected = [UserTurn(order), AgentTurn("sent", [ToolCall("look_up")])]
    ConversationRunner(lambda text: AgentTurn("sent", made), expected).run_sync()
"""


@pytest.mark.exhaustive
def test_each_attempt_of_a_test_that_is_run_again_is_a_session_of_its_question(run, pytester):
    done = run(RERUN, "--reruns", "2", "--spangrade-db", "runs.duckdb", "-n", "2", apart=True)
    outcomes = done.parseoutcomes()
    assert (outcomes["passed"], outcomes["rerun"]) == (2, 1)
    _, verdicts, failed = stored_run(pytester.path)
    assert [verdict[:2] for verdict in verdicts] == [
        ("test_it.py::test_order[1]", "passed"),
        ("test_it.py::test_order[2]", "failed"),
        ("test_it.py::test_order[2]", "passed"),
    ]
    assert len(failed) == 1
    assert "test_it.py::test_order[2]: 1 of 2 passed, 50% (95% interval 9% to 91%)" in done.evals
