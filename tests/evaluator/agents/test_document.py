"""Every sentence of the document "Evals as unit tests", which the runner and its comparisons follow.

A case quotes the sentences that it checks. What differs on purpose is listed, with the reason, in
docs/pytest.md; a case checks what holds instead.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from typing import TypeVar

import pytest
from gemini_standin import gemini_standin, knows
from packaging.requirements import Requirement
from paths import ROOT, SHARED

from spangrade.evaluator.conversation_runner import ConversationMismatch, ConversationRunner
from spangrade.evaluator.judge import GeminiJudge, JudgeRun, JudgeUnavailable, use_judge
from spangrade.evaluator.similarity_utils import is_similar, is_similar_dict, is_similar_str, is_similar_text
from spangrade.evaluator.turn import AgentTurn, ToolCall, UserTurn

pytest_plugins = ["pytester"]

DOCUMENT = SHARED / "seeds" / "evals_as_unit_tests.md"
PAGE = ROOT / "docs" / "pytest.md"
Test = TypeVar("Test", bound=Callable[..., object])

quoted: dict[str, str] = {}  # the test of each sentence


def quotes(*sentences: str) -> Callable[[Test], Test]:
    """Say which sentences of the document a case checks."""

    def marked(test: Test) -> Test:
        quoted.update(dict.fromkeys(map(normal, sentences), test.__name__))
        return test

    return marked


def normal(text: str) -> str:
    return " ".join(text.split())


def sentences(document: str) -> list[str]:
    """Return the sentences of a Markdown text, and each of its blocks of code; headings are not sentences."""
    found = []
    for index, part in enumerate(re.split(r"^```.*\n", document, flags=re.MULTILINE)):
        if index % 2:
            found.append(part)
            continue
        for line in part.splitlines():
            is_heading = re.match(r"#|\*\*", line)
            if line.strip() and not is_heading:
                found += re.split(r"(?<=[.!?]) +(?=[A-Z\"])", line.removeprefix("- "))
    return [normal(sentence) for sentence in found]


def test_every_sentence_of_the_document_is_quoted():
    if not DOCUMENT.exists():
        pytest.skip(f"{DOCUMENT} is not there")
    of_document = sentences(DOCUMENT.read_text(encoding="utf-8"))
    assert len(of_document) == 30
    assert [sentence for sentence in of_document if sentence not in quoted] == []
    assert sorted(quoted.keys() - set(of_document)) == []


# What differs from a sentence, by words of the page that gives the reason.
DEVIATIONS = {
    "from eval.conversation_runner import": "top-level packages",
    "line/tests/test_*": "the Line SDK's own folder",
    "dev-dependencies": "bounds, not pins",
    '"*" on either side': "passes nothing",
    "Other types require exact matches": "1 equals 1.0",
    "None values in expected dict skip that key": "may also be missing",
    "Tests are automatically skipped": "only tests that need the judge",
}


@pytest.mark.parametrize(("words", "reason"), DEVIATIONS.items())
def test_the_page_gives_the_reason_of_each_deviation(words, reason):
    section = PAGE.read_text(encoding="utf-8").partition("\n## Where this differs from the document\n")[2]
    [row] = [row for row in section.splitlines() if words in row.replace("`", "")]
    assert reason in row


@pytest.fixture
def gemini(monkeypatch):
    """The stand-in of Gemini as the judge; it denies what a test does not tell it."""
    monkeypatch.setenv("GEMINI_API_KEY", "key of the stand-in")
    with gemini_standin() as standin:
        standin.answer = knows()
        with use_judge(JudgeRun(GeminiJudge(http_options=standin.http_options()))):
            yield standin


@pytest.fixture
def no_key(monkeypatch, tmp_path):
    for variable in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("SPANGRADE_JUDGE_CACHE", str(tmp_path / "verdicts.sqlite"))


@pytest.fixture
def tests(pytester):
    """A folder for tests of its own, to run pytest in."""
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    return pytester


def weather(location, units=None, forecast=None):
    return {"temperature": 70 if forecast else 61, "condition": "sunny" if forecast else "foggy"}


class ExampleWeatherNode:
    """A reasoning node of voice SDKs: its `process_context` yields events."""

    async def process_context(self, context):
        tomorrow = "tomorrow" in context.get_latest_user_transcript_message()
        asked = {"forecast": "tomorrow"} if tomorrow else {"units": "fahrenheit"}
        arguments = {"location": "San Francisco", **asked}
        result = weather(**arguments)
        yield ToolCall("get_weather", arguments, result)
        yield f"It is {result['condition']}."


# --- Motivation, Goal


@quotes(
    "Vibe checking an agent is rather painful, especially if the scenarios are rather complex.",
    'If we leverage the fact that a "code-first" voice agent can natively integrate with the python testing '
    "ecosystem, we can allow developers to build and evaluate agent behavior with native python tools.",
    '"Evals as unit tests" is a testing framework for validating that your agent has the correct '
    "text-to-text behavior and models this as unit tests.",
    "You can simply write tests and run them with",
)
def test_an_eval_is_a_test_of_python_that_passes_or_fails(tests):
    tests.makepyfile(
        """
        from spangrade.evaluator.conversation_runner import ConversationRunner
        from spangrade.evaluator.turn import AgentTurn, UserTurn

        def agent(text):
            return text.upper()

        def test_shouts():
            ConversationRunner(agent, [UserTurn("hello"), AgentTurn("Hello!")]).run_sync()

        def test_answers():
            ConversationRunner(agent, [UserTurn("hello"), AgentTurn("*", [])]).run_sync()
        """
    )
    tests.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1, failed=1)


@quotes(
    "You can specify a conversation and assert certain qualities of your agent -  mentioned something or has "
    "made the correct tool calls."
)
async def test_a_conversation_asserts_what_is_mentioned_and_which_tools_are_called(gemini):
    gemini.answer = knows(("mentions fog", "It is foggy."))

    async def hold(text, units):
        calls = [ToolCall("get_weather", {"location": "*", "units": units})]
        await ConversationRunner(ExampleWeatherNode(), [UserTurn("Weather?"), AgentTurn(text, calls)]).run()

    await hold("<mentions fog>", "fahrenheit")
    with pytest.raises(ConversationMismatch):
        await hold("<mentions rain>", "fahrenheit")
    with pytest.raises(ConversationMismatch):
        await hold("<mentions fog>", "celsius")


# --- Overview, Leveraging pytest, Dependencies

INSTALL = """
# Installs dev pytest dependencies
uv sync --extra dev

# Run all pytests
uv run pytest
"""
PINS = """
[tool.uv]
dev-dependencies = [
    "pytest==8.4.2",
    "pytest-asyncio==1.2.0",
    "pytest-cov==7.0.0",
    "pytest-xdist==3.8.0",
    "pytest-repeat==0.9.4"
]
"""


@quotes(
    INSTALL,
    "Ensure the following are added as dependencies (the following example uses `uv`)",
    PINS,
)
def test_the_extra_dev_has_the_plugins():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    dev = {(one := Requirement(text)).name: one for text in project["optional-dependencies"]["dev"]}
    pins = [Requirement(pin) for pin in tomllib.loads(PINS)["tool"]["uv"]["dev-dependencies"]]
    assert len(pins) == 5
    for pin in pins:
        [version] = pin.specifier
        assert dev[pin.name].specifier.contains(version.version), pin


@quotes(
    "One way to improve your robustness is to run with multiple counts automatically load balanced across "
    "all available workers (usually the number of cores you have on your machine):",
    "uv run pytest tests/test_similarity_utils.py   --count 8 -n auto",
    "Or you can run certain tests",
    "uv run pytest line/tests/test_*",
)
@pytest.mark.exhaustive
def test_tests_run_several_times_on_all_workers_and_one_by_one(tests, monkeypatch):
    monkeypatch.delenv("PYTEST_XDIST_AUTO_NUM_WORKERS", raising=False)
    tests.makepyfile(
        test_similarity_utils="""
        from spangrade.evaluator.similarity_utils import is_similar_text

        def test_it():
            assert is_similar_text("Hello!", "hello")
        """,
        test_other="def test_other(): pass",
    )
    repeated = tests.runpytest_subprocess("test_similarity_utils.py", "--count", "8", "-n", "auto")
    repeated.assert_outcomes(passed=8)
    assert (ROOT / "tests" / "test_similarity_utils.py").exists()
    files = sorted(path.name for path in tests.path.glob("test_*.py"))
    tests.runpytest_inprocess("-p", "no:cacheprovider", *files).assert_outcomes(passed=2)


# --- Usage Example

EXAMPLE = """
from eval.conversation_runner import ConversationRunner
from eval.turn import AgentTurn, ToolCall, UserTurn

reasoning_node = ExampleWeatherNode()

# Define expected conversation flow
expected_conversation = [
    UserTurn(text="What's the weather like in San Francisco?"),
    AgentTurn(
        text="<mentions current weather conditions>",
        tool_calls=[ToolCall(
            name="get_weather",
            arguments={"location": "San Francisco", "units": "fahrenheit"},
            result={"temperature": None, "condition": "*"}
        )]
    ),
    UserTurn(text="What about tomorrow?"),
    AgentTurn(
        text="*",  # Accept any response about tomorrow's weather
        tool_calls=[ToolCall(
            name="get_weather",
            arguments={"location": "San Francisco", "forecast": "tomorrow"},
            result={"temperature": None, "condition": "*"}
        )]
    )
]

# Run the test
test_conv = ConversationRunner(reasoning_node, expected_conversation)
await test_conv.run()
"""


@quotes(EXAMPLE)
async def test_the_example_runs_as_it_stands_but_for_the_name_of_the_package(gemini):
    gemini.answer = knows(("mentions current weather conditions", "It is foggy."))
    body = EXAMPLE.replace("from eval.", "from spangrade.evaluator.").replace("\n", "\n    ")
    names = {"ExampleWeatherNode": ExampleWeatherNode}
    exec(f"async def example():{body}\n    return test_conv", names)
    runner = await names["example"]()
    assert isinstance(runner, ConversationRunner)
    assert gemini.calls == 1


# --- Comparison logic


@quotes(
    "Due to the non-deterministic nature of LLMs, we support the following syntax for ensuring that turns "
    "match",
    '`"*"` - Matches any string content',
    'Example: `AgentTurn(text="*")` accepts any agent response',
)
@pytest.mark.parametrize("text", ["Hello", "*", "<greets>", "two\nlines"])
async def test_a_wildcard(no_key, text):
    await ConversationRunner(lambda said: text, [UserTurn("Hi"), AgentTurn(text="*")]).run()
    assert await is_similar_dict({"key": text}, {"key": "*"})
    assert not await is_similar_dict({"key": 5}, {"key": "*"})


async def test_a_wildcard_accepts_no_empty_reply(no_key):
    """An agent that says nothing has not responded; an empty value in a result is a text like any other."""
    called = [ToolCall("look_up")]
    said_nothing = ("", "\u200b", AgentTurn("", called), {"text": None, "tool_calls": [{"name": "look_up"}]})
    for answer in said_nothing:
        for text in ("*", ["Bye.", "*"]):
            with pytest.raises(ConversationMismatch, match="the reply is empty"):
                await ConversationRunner(lambda said, a=answer: a, [UserTurn("Hi"), AgentTurn(text)]).run()
    for answer in said_nothing[2:]:
        await ConversationRunner(lambda said, a=answer: a, [UserTurn("Hi"), AgentTurn("", called)]).run()
    handed_off = {"text": None, "tool_calls": [{"name": "transfer_to_agent"}]}
    await ConversationRunner(lambda said: handed_off, [UserTurn("Hi"), AgentTurn("*")]).run()
    assert await is_similar_dict({"key": ""}, {"key": "*"})


@quotes(
    "Uses Gemini AI to compare meaning beyond exact text matching",
    'Example: "What\'s your name?" ≈ "Can you tell me your name?"',
)
async def test_meaning(gemini):
    gemini.answer = knows(("What's your name?", "Can you tell me your name?"))
    assert await is_similar_str("Can you tell me your name?", "What's your name?")
    assert not await is_similar_str("How old are you?", "What's your name?")
    assert gemini.calls == 2


@quotes("Handles paraphrasing, synonyms, and filler words")
async def test_paraphrases_synonyms_and_fillers(gemini):
    gemini.answer = knows(("You are verified", "Your identity is confirmed"), ("big", "large"))
    assert await is_similar_str("Your identity is confirmed", "You are verified")
    assert await is_similar_str("large", "big")
    assert gemini.calls == 2
    assert await is_similar_str("Okay, you are verified!", "You are verified")
    assert gemini.calls == 2


@quotes(
    '`"<statement about content>"` - Matches text that satisfies the statement',
    'Example: `"<mentions SOC-2 compliance>"` matches "We are SOC-2 compliant"',
    'Example: `"<asks for user name>"` matches "What\'s your name?"',
)
async def test_statements(gemini):
    true = [
        ("mentions SOC-2 compliance", "We are SOC-2 compliant"),
        ("asks for user name", "What's your name?"),
    ]
    gemini.answer = knows(*true)
    for statement, text in true:
        assert await is_similar_str(text, f"<{statement}>")
        assert not await is_similar_str("Something else", f"<{statement}>")


@quotes('`AgentTurn(text=["I can say hello", "<mentions how are you>"])')
async def test_different_responses(gemini):
    gemini.answer = knows(("mentions how are you", "Hi, how are you?"))
    turn = AgentTurn(text=["I can say hello", "<mentions how are you>"])
    for answer in ("I can say hello.", "Hi, how are you?"):
        await ConversationRunner(lambda said, answer=answer: answer, [UserTurn("Hi"), turn]).run()
    with pytest.raises(ConversationMismatch):
        await ConversationRunner(lambda said: "Go away", [UserTurn("Hi"), turn]).run()


@quotes("Nested dictionaries are compared recursively")
def test_nested_dictionaries(no_key):
    expected = {"a": {"b": {"c": 1}}}
    assert is_similar_dict({"a": {"b": {"c": 1}}}, expected)
    [mismatch] = is_similar_dict({"a": {"b": {"c": 2}}}, expected).result().mismatches
    assert mismatch.path == "value.a.b.c"


@quotes("String values use semantic similarity matching")
async def test_strings_in_dictionaries(gemini):
    gemini.answer = knows(("sunny", "clear skies"))
    assert await is_similar_dict({"today": {"sky": "clear skies"}}, {"today": {"sky": "sunny"}})
    assert not await is_similar_dict({"today": {"sky": "rain"}}, {"today": {"sky": "sunny"}})


@quotes("Other types require exact matches")
@pytest.mark.parametrize(
    ("actual", "expected", "equal"),
    [
        (1, 1, True),
        (1, 2, False),
        (1, "1", False),
        (True, 1, False),
        (0.5, 0.5, True),
        (None, {"$null": True}, True),
        # 1 equals 1.0, which JSON does not tell apart; the strings of a list are strings.
        (1, 1.0, True),
        (["A"], ["a"], True),
    ],
)
def test_other_values(no_key, actual, expected, equal):
    assert bool(is_similar({"key": actual}, {"key": expected})) is equal


@quotes(
    "`None` values in expected dict skip that key's validation",
    "Allows partial dictionary matching for flexible validation",
)
@pytest.mark.parametrize("actual", [{"a": 1, "b": 2}, {"a": 1, "b": None}, {"a": 1, "b": {"c": 3}}, {"a": 1}])
def test_none_in_dictionaries(no_key, actual):
    assert is_similar_dict(actual, {"a": 1, "b": None})
    assert not is_similar_dict(actual, {"a": 2, "b": None})


# --- Environment Requirements


@quotes("Requires `GEMINI_API_KEY` environment variable for semantic similarity checking")
async def test_meaning_needs_a_key(no_key):
    with pytest.raises(JudgeUnavailable, match="GEMINI_API_KEY"):
        await is_similar_text("Goodbye", "Hello")


@quotes("Tests are automatically skipped if API key is not available")
def test_without_a_key_tests_that_need_the_judge_are_skipped(tests, no_key):
    tests.makepyfile(
        """
        from spangrade.evaluator.similarity_utils import is_similar_text

        def test_needs_it():
            assert is_similar_text("Hi", "<greets>")

        def test_needs_it_not():
            assert is_similar_text("Hi", "hi")

        def test_fails_without_it():
            assert is_similar_text("Hi", "*") and False
        """
    )
    result = tests.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(skipped=1, passed=1, failed=1)
