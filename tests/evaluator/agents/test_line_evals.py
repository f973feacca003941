"""The evals tests of the Line SDK (cartesia-ai/line), whose API ours follows, as cases of our own.

Its five tests are about wildcards, statements, meaning, dictionaries and lists. Where we differ on purpose, a
note says why. With Line, either argument may hold a pattern; here the first is what the agent produced, and
never a pattern, or an agent that answers "*" would pass everything.
"""

import pytest
from gemini_standin import gemini_standin, knows

from spangrade.evaluator.conversation_runner import ConversationMismatch, ConversationRunner
from spangrade.evaluator.judge import GeminiJudge, JudgeRun, use_judge
from spangrade.evaluator.similarity_utils import is_similar_dict, is_similar_str, is_similar_text
from spangrade.evaluator.turn import AgentTurn, ToolCall, UserTurn

COMPLIANT = "Our systems passed the SOC-2 audit."
VAGUE = "We take good care of your records."
NAME, SAME_NAME, AGE = "What is your name?", "May I have your name, please?", "How old are you?"


@pytest.fixture(autouse=True)
def gemini(monkeypatch):
    """The stand-in of Gemini as the judge; it knows which of these texts mean the same."""
    monkeypatch.setenv("GEMINI_API_KEY", "key of the stand-in")
    with gemini_standin() as standin:
        standin.answer = knows(
            ("mentions SOC-2", COMPLIANT), (NAME, SAME_NAME), ("Good morning", "Morning!"), ("Ann", "Annie")
        )
        with use_judge(JudgeRun(GeminiJudge(http_options=standin.http_options()))):
            yield standin


# --- Wildcard


def test_a_wildcard_matches_any_text(gemini):
    assert is_similar_str("Anything at all", "*")
    assert gemini.calls == 0


def test_a_wildcard_of_the_agent_matches_nothing():
    """Line accepts it on either side."""
    assert not is_similar_str("*", "Good morning")
    assert is_similar_str("*", "*")


# --- Statement


def test_a_statement_matches_a_text_of_which_it_is_true():
    assert is_similar_str(COMPLIANT, "<mentions SOC-2>")
    found = is_similar_str(VAGUE, "<mentions SOC-2>").result()
    assert (bool(found), found.mismatches[0].reason) == (False, "the stand-in knows")


def test_a_statement_of_the_agent_is_its_text():
    """Line compares two statements as texts, and a statement on either side with the other text."""
    assert not is_similar_str("<mentions SOC-2>", COMPLIANT)
    assert not is_similar_str("<mentions SOC-2>", "<mentions SOC-2>")


# --- Meaning


def test_texts_of_the_same_meaning_match_and_others_do_not():
    assert is_similar_str(SAME_NAME, NAME)
    assert not is_similar_str(AGE, NAME)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ("  good MORNING ", "Good morning"),
        ("Okay, good morning!", "Good morning"),
        ("I have two", "I have 2"),
    ],
)
def test_case_spaces_fillers_and_spelled_out_numbers_make_no_difference(gemini, actual, expected):
    """Line strips and lowers texts, and asks Gemini about fillers and numbers; here these need no call."""
    assert is_similar_str(actual, expected)
    assert gemini.calls == 0


# --- Dictionary


def test_dictionaries_are_compared_key_by_key_at_every_depth():
    expected = {"customer": {"name": "Ann"}, "state": "open"}
    assert is_similar_dict({"customer": {"name": "Ann"}, "state": "open"}, expected)
    assert is_similar_dict({"customer": {"name": "Annie"}, "state": "open"}, expected)
    assert not is_similar_dict({"customer": {"name": "Bob"}, "state": "open"}, expected)


def test_the_keys_must_be_the_same():
    assert not is_similar_dict({"name": "Ann"}, {"name": "Ann", "state": "open"})
    assert not is_similar_dict({"name": "Ann", "state": "open"}, {"name": "Ann"})


def test_none_skips_a_key_even_if_it_is_missing():
    """With Line a skipped key must still be there; a value that may be anything may also be absent."""
    assert is_similar_dict({"name": "Ann", "since": 1999}, {"name": "Ann", "since": None})
    assert is_similar_dict({"name": "Ann"}, {"name": "Ann", "since": None})


def test_lists_in_dictionaries_are_compared_by_the_same_rules():
    """Line compares lists with ==, so that a wildcard in one never matches."""
    assert is_similar_dict({"names": ["Annie", "Bob"]}, {"names": ["Ann", "*"]})


# --- List


@pytest.mark.parametrize(
    ("actual", "expected", "similar"),
    [
        ("Good morning", "Good morning", True),
        (["Good morning"], ["Good morning"], True),
        ("Good morning", "Good night", False),
        (["Morning!"], ["Good morning"], True),
        (["Good morning"], ["*"], True),
        ("Morning!", ["pears", "Good morning"], True),
        (["apples", "pears"], ["cats", "dogs"], False),
    ],
)
def test_a_text_matches_one_of_a_list(actual, expected, similar):
    assert bool(is_similar_text(actual, expected)) is similar


def test_a_list_of_the_agents_texts_is_a_list_of_values():
    """Line passes if any text of the first list matches any of the second; an agent gives one answer."""
    assert not is_similar_text(["Morning!", "pears"], ["apples", "Good morning"])


# --- The same in turns


def agent(text):
    return AgentTurn(
        COMPLIANT,
        [
            ToolCall("find", {"name": "Annie", "limit": 2}, {"orders": ["A-1"], "total": 7.5}),
            ToolCall("close", {}, None),
        ],
    )


FIND = ToolCall("find", {"name": "Ann", "limit": 2}, {"orders": ["*"], "total": None})
CLOSE = ToolCall("close", {})
FIRST = "turn 2.tool_calls[0]"


@pytest.mark.parametrize(
    "turn",
    [
        AgentTurn("*", [FIND, CLOSE]),
        AgentTurn("<mentions SOC-2>", [FIND, CLOSE]),
        AgentTurn(["Good night", "<mentions SOC-2>"], [FIND, CLOSE]),
        AgentTurn(COMPLIANT.upper(), [FIND, CLOSE]),
        # Line expects no tool calls here: `tool_calls` is empty unless given. Here only [] says so.
        AgentTurn("*"),
        # Line sorts the calls by name. Here their order is part of what is expected, unless `other_calls`
        # or `any_order` say otherwise.
        AgentTurn("*", [FIND], other_calls=True),
    ],
)
async def test_a_turn_as_expected(turn):
    await ConversationRunner(agent, [UserTurn("Hi"), turn]).run()


@pytest.mark.parametrize(
    ("turn", "path"),
    [
        (AgentTurn("Good morning"), "turn 2.text"),
        (AgentTurn(["Good morning", "Good night"]), "turn 2.text"),
        (AgentTurn("*", [CLOSE, FIND]), "turn 2.tool_calls"),
        (AgentTurn("*", [FIND]), "turn 2.tool_calls"),
        (AgentTurn("*", [ToolCall("find", {"name": "Bob", "limit": 2}), CLOSE]), f"{FIRST}.arguments.name"),
        (AgentTurn("*", [ToolCall("find", {"name": "*", "limit": 3}), CLOSE]), f"{FIRST}.arguments.limit"),
        (
            AgentTurn("*", [ToolCall("find", None, {"orders": [], "total": 7.5}), CLOSE]),
            f"{FIRST}.result.orders[0]",
        ),
    ],
)
async def test_a_turn_that_differs_is_named_by_its_path(turn, path):
    with pytest.raises(ConversationMismatch) as raised:
        await ConversationRunner(agent, [UserTurn("Hi"), turn]).run()
    assert [mismatch.path for mismatch in raised.value.similarity.mismatches] == [path]
