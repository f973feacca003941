"""The plugin in pytest runs of their own, with the real plugins for xdist, repeats and asyncio."""

import json
import re
import shlex
import subprocess
import sys
import tomllib

import pytest
from gemini_standin import decision, gemini_standin
from packaging.requirements import Requirement
from paths import ROOT

# Imported before the runs inside this process, which forget what they import: DuckDB cannot be loaded twice.
import spangrade.evaluator.conversation_runner  # noqa: F401

pytest_plugins = ["pytester"]

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


@pytest.fixture
def run(pytester):
    """Run pytest on a file of tests; the result has the lines of the evals' summary apart.

    Only where it matters does it run in a process of its own, which imports the client of Gemini for 2 s.
    """

    def run(text, *options, apart=False):
        pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
        pytester.makepyfile(test_it=text)
        runpytest = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        result = runpytest("--strict-markers", "-p", "no:cacheprovider", *options)
        lines = result.outlines
        start = next((i for i, line in enumerate(lines) if re.fullmatch("=+ agent evals =+", line)), None)
        rest = [] if start is None else lines[start + 1 :]
        end = next((i for i, line in enumerate(rest) if line.startswith("=")), len(rest))
        result.evals = rest[:end]
        return result

    return run


def test_an_eval_is_repeated_on_all_workers_and_its_pass_rate_told(run, gemini):
    """run with multiple counts automatically load balanced across all available workers"""
    result = run(EVALS, "--count", "8", "-n", "2", apart=True)
    result.assert_outcomes(passed=8)
    rate, judge = result.evals
    assert rate == "test_it.py::test_greets: 8 of 8 passed, 100% (95% interval 68% to 100%)"
    assert re.fullmatch(r"judge gemini/\S+: calls 1, cache hits 7, cost (\$0\.\d{6}|unknown)", judge)
    assert gemini.calls == 1


def test_pass_rates_count_failures_and_errors_and_leave_out_what_was_skipped(run, no_key):
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
        "test_it.py::test_undecided: 4 skipped",
        "judge gemini/gemini-3.8-flash: calls 0, cache hits 0, cost $0.000000",
    ]


def test_without_a_key_what_needs_the_judge_is_skipped(run, no_key):
    """Tests are automatically skipped if API key is not available"""
    result = run(EVALS, "-rs")
    result.assert_outcomes(skipped=1)
    [reason] = [line for line in result.outlines if line.startswith("SKIPPED")]
    assert "GEMINI_API_KEY" in reason


def test_a_mismatch_is_shown_turn_by_turn_and_its_session_is_kept(run, gemini, pytester):
    gemini.answer = lambda request: decision(False, "it says goodbye")
    result = run(EVALS, "--spangrade-db", "runs.duckdb")
    result.assert_outcomes(failed=1)
    *shown, command = (line.removeprefix("E").strip() for line in result.outlines if line.startswith("E  "))
    assert shown == [
        "spangrade.evaluator.conversation_runner.ConversationMismatch: the agent's answer is not as expected",
        "user: Hello",
        "agent: Hi there",
        "turn 2.text: it says goodbye",
        "expected: '<greets>'",
        "actual:   'Hi there'",
    ]
    assert not any("conversation_runner.py" in line for line in result.outlines)
    show = [sys.executable, "-m", "spangrade", *shlex.split(command)[1:], "--format", "json"]
    opened = subprocess.run(show, capture_output=True, check=True, cwd=pytester.path)
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


def test_a_judge_that_breaks_fails_the_test(run, gemini):
    gemini.failures = [400]
    run(EVALS).assert_outcomes(failed=1)


@pytest.mark.parametrize("workers", ["0", "2"])
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
    assert result.evals[1] == "judge gemini/gemini-x: calls 1, cache hits 0, cost unknown"
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
            heavy = {"duckdb", "google.genai", "opentelemetry", "pydantic", "spangrade.evaluator.judge"}
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
    page = (ROOT / "docs" / "evals_as_unit_tests.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    result = run("\n".join(blocks), "-o", "asyncio_mode=auto")
    result.assert_outcomes(passed=3)
    assert [request.criterion for request in gemini.requests] == [
        "mentions current weather conditions",
        "mentions the weather",
    ]


def test_dev_brings_the_documents_pytest_plugins():
    """Installs dev pytest dependencies; ensure the following are added as dependencies"""
    document = ["pytest==8.4.2", "pytest-asyncio==1.2.0", "pytest-cov==7.0.0"]
    document += ["pytest-xdist==3.8.0", "pytest-repeat==0.9.4"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    dev = {(one := Requirement(text)).name: one for text in project["optional-dependencies"]["dev"]}
    for name, version in (pinned.split("==") for pinned in document):
        assert dev[name].specifier.contains(version)
