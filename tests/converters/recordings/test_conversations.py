"""Chat messages, trajectories and transcripts become sessions, whatever form they have."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import FIXTURES
from recordings import sessions_of_file
from short_form import examples

import spangrade
from spangrade import Session
from spangrade.tracer.readers import records_in
from spangrade.tracer.span import Problem

CALL = {"name": "look_up", "arguments": '{"order": "A1"}'}
OPENAI = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Where is A1?"},
    {
        "role": "assistant",
        "content": "A moment.",
        "tool_calls": [{"id": "c1", "type": "function", "function": CALL}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": '{"status": "shipped"}'},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "It is "}, {"type": "text", "text": "shipped."}],
    },
    {"role": "user", "content": [{"type": "text", "text": "Thanks"}]},
    {"role": "assistant", "content": "Bye."},
]
LEGACY = [
    *OPENAI[:2],
    {"role": "assistant", "content": "A moment.", "function_call": CALL},
    {"role": "function", "name": "look_up", "content": '{"status": "shipped"}'},
    *OPENAI[4:],
]
RESPONSES = [
    *OPENAI[:2],
    {"type": "reasoning", "summary": []},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A moment."}]},
    {"type": "function_call", "call_id": "c1", **CALL},
    {"type": "function_call_output", "call_id": "c1", "output": '{"status": "shipped"}'},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is shipped."}]},
    *OPENAI[5:],
]
ANTHROPIC = [
    *OPENAI[1:2],
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "A moment."},
            {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"order": "A1"}},
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": '{"status": "shipped"}'}],
    },
    *OPENAI[4:],
]
GEMINI = [
    {"role": "user", "parts": [{"text": "Where is A1?"}]},
    {
        "role": "model",
        "parts": [{"text": "A moment."}, {"functionCall": {"name": "look_up", "args": {"order": "A1"}}}],
    },
    {
        "role": "user",
        "parts": [{"functionResponse": {"name": "look_up", "response": {"status": "shipped"}}}],
    },
    {"role": "model", "parts": [{"text": "It is shipped."}]},
    {"role": "user", "parts": [{"text": "Thanks"}]},
    {"role": "model", "parts": [{"text": "Bye."}]},
]
# LangChain's messages: `model_dump`, `messages_to_dict` and `dumpd` write them.
LANGCHAIN = [
    {"type": "system", "content": "Be kind."},
    {"type": "human", "content": "Where is A1?", "additional_kwargs": {}},
    {
        "type": "ai",
        "content": "A moment.",
        "tool_calls": [{"name": "look_up", "args": {"order": "A1"}, "id": "c1", "type": "tool_call"}],
        "response_metadata": {"model_name": "gpt-4.1"},
        "usage_metadata": {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25},
    },
    {
        "type": "tool",
        "content": '{"status": "shipped"}',
        "name": "look_up",
        "tool_call_id": "c1",
        "status": "success",
    },
    {"type": "AIMessageChunk", "content": [{"type": "text", "text": "It is shipped."}], "tool_calls": []},
    {"type": "human", "content": "Thanks"},
    {"type": "ai", "content": "Bye."},
]
CLASSES = {"system": "SystemMessage", "human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
AS_DICTS = [{"type": one["type"], "data": one} for one in LANGCHAIN]
CONSTRUCTED = [
    {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", CLASSES.get(one["type"], one["type"])],
        "kwargs": one,
    }
    for one in LANGCHAIN
]


def sessions(tmp_path: Path, content: Any, *, lines: bool = False) -> list[Session]:
    """Return the sessions in a file of JSON, or of JSON Lines."""
    file = tmp_path / "file"
    file.write_text("\n".join(map(json.dumps, content)) if lines else json.dumps(content))
    return sessions_of_file(file, tmp_path / "s.duckdb")


def told(session: Session) -> tuple[Any, ...]:
    """Return the turns and calls of a session."""
    turns = [(one.user_input, one.final_response) for one in session.turns]
    calls = [
        (one.turn, one.tool_name, one.input_arguments, one.output, one.ok)
        for one in session.tool_interactions
    ]
    return turns, calls


TOLD = (
    [("Where is A1?", "It is shipped."), ("Thanks", "Bye.")],
    [(1, "look_up", {"order": "A1"}, {"status": "shipped"}, True)],
)


@pytest.mark.parametrize(
    "document",
    [
        {"messages": OPENAI},
        {"messages": LEGACY},
        {"messages": RESPONSES},
        {"system": "Be kind.", "messages": ANTHROPIC},
        {"systemInstruction": {"parts": [{"text": "Be kind."}]}, "contents": GEMINI},
        OPENAI,
        [{"messages": OPENAI}],
        {"messages": LANGCHAIN},
        {"messages": AS_DICTS},
        CONSTRUCTED,
    ],
    ids=[
        *("openai", "earlier openai", "responses", "anthropic", "gemini", "list", "list of conversations"),
        *("langchain", "langchain's dicts", "langchain's constructors"),
    ],
)
@pytest.mark.short_form("document", 4)
def test_each_form_of_messages_is_the_same_session(document, tmp_path):
    (session,) = sessions(tmp_path, document)
    assert told(session) == TOLD
    assert session.system_instruction == "Be kind."
    assert session.session_id.startswith("messages-")
    assert session.session_id_source == "conversation"


def test_what_stands_beside_messages_is_stored_and_what_is_not_recorded_is_unknown(tmp_path):
    line = {
        "id": "s1",
        "question_id": 7,
        "messages": OPENAI,
        "state": {"n": 2},
        "scores": {"reward": 1, "tone": {"value": 0.5, "explanation": "curt", "by": "ann"}, "done": True},
        "labels": [{"name": "topic", "label": "orders"}],
        "metadata": {"trial": 3, "tags": ["x"], "model": "gpt"},
        "tools": [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}],
    }
    (session,) = sessions(tmp_path, [line, {**line, "id": "s2"}][:1], lines=True)
    assert (session.session_id, session.question_id, session.state_variables) == ("s1", "7", {"n": 2})
    scores = {
        one.name: (one.value, one.label, one.explanation, one.author) for one in session.recorded_scores
    }
    assert scores == {
        "reward": (1, None, "", None),
        "tone": (0.5, None, "curt", "ann"),
        "done": (1, None, "", None),
        "topic": (None, "orders", "", None),
    }
    assert session.tags == ("trial=3", "model=gpt", "spangrade.times=unknown")
    assert session.tool_declarations is not None
    assert (session.start_ns, session.latency.total_s, session.cost_usd, session.agents) == (None,) * 4
    assert [turn.latency_s for turn in session.turns] == [None, None]
    assert [(one.span_id, one.latency_s) for one in session.tool_interactions] == [(None, None)]
    assert {one.input_tokens for one in session.llm_calls} == {None}


def test_times_models_and_tokens_of_messages_are_kept(tmp_path):
    usage = {"prompt_tokens": 90, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 40}}
    messages = [
        {"role": "user", "content": "Hi", "timestamp": "2026-01-31T12:00:00Z"},
        {
            "role": "assistant",
            "content": "Yes?",
            "timestamp": "2026-01-31T12:00:03Z",
            "model": "gpt-4o",
            "usage": usage,
        },
    ]
    (session,) = sessions(tmp_path, {"id": "s1", "messages": messages})
    assert session.start_ns == 1_769_860_800_000_000_000
    assert session.tags is None
    (call,) = session.llm_calls
    assert (call.model, call.input_tokens, call.cached_input_tokens, call.output_tokens) == (
        "gpt-4o",
        90,
        40,
        5,
    )
    assert call.latency_s is None


@pytest.mark.parametrize(("stop", "more"), [("###STOP###", {}), ("BYE", {"stop_word": "BYE"})])
@pytest.mark.short_form("stop", 2)
def test_a_stop_word_ends_the_users_part(tmp_path, stop, more):
    messages = [*OPENAI[1:5], {"role": "user", "content": stop}]
    (session,) = sessions(tmp_path, {"messages": messages, **more})
    assert told(session)[0] == [("Where is A1?", "It is shipped.")]
    (other,) = sessions(
        tmp_path, {"messages": [*OPENAI[1:5], {"role": "user", "content": f"No. {stop}"}], **more}
    )
    assert told(other)[0] == [("Where is A1?", "It is shipped."), (f"No. {stop}", None)]


def test_a_call_without_a_result_was_only_requested_and_one_with_an_error_failed(tmp_path):
    messages = [*OPENAI[1:3], {"role": "tool", "tool_call_id": "c1", "content": "Error: no such order"}]
    (session,) = sessions(tmp_path, messages)
    assert told(session)[1] == [(1, "look_up", {"order": "A1"}, "Error: no such order", False)]
    (open_end,) = sessions(tmp_path, messages[:2])
    assert told(open_end) == ([("Where is A1?", "A moment.")], [])
    assert [one.tool_name for one in open_end.requested_calls] == ["look_up"]


def test_results_of_a_doubled_call_id_belong_to_their_own_calls(tmp_path):
    again = [OPENAI[2], {"role": "tool", "tool_call_id": "c1", "content": "Error: late"}]
    (session,) = sessions(tmp_path, [OPENAI[1], *again, OPENAI[2], OPENAI[3], OPENAI[4]])
    assert [(one.output, one.ok) for one in session.tool_interactions] == [
        ("Error: late", False),
        ({"status": "shipped"}, True),
    ]


ATIF = {
    "schema_version": "ATIF-v1.6",
    "session_id": "run-7",
    "agent": {"name": "terminus", "version": "2.0", "model_name": "gemini-2.5-flash"},
    "steps": [
        {"step_id": 1, "timestamp": "2026-01-31T12:00:00Z", "source": "system", "message": "Be kind."},
        {"step_id": 2, "timestamp": "2026-01-31T12:00:01Z", "source": "user", "message": "Where is A1?"},
        {"step_id": 3, "source": "agent", "message": "Old.", "is_copied_context": True},
        {
            "step_id": 4,
            "timestamp": "2026-01-31T12:00:02Z",
            "source": "agent",
            "message": [{"type": "text", "text": "A moment."}],
            "reasoning_content": "Look it up.",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "look_up", "arguments": {"order": "A1"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": '{"status": "shipped"}'}]},
            "metrics": {"prompt_tokens": 900, "completion_tokens": 20, "cached_tokens": 100, "cost_usd": 0.1},
        },
        {"step_id": 5, "source": "agent", "message": "It is shipped.", "model_name": "gemini-2.5-pro"},
    ],
    "final_metrics": {"total_prompt_tokens": 900},
    "extra": {"task": "orders"},
}


@pytest.mark.parametrize("document", [ATIF, [ATIF]])
def test_a_trajectory_of_atif_is_a_session(document, tmp_path):
    (session,) = sessions(tmp_path, document)
    assert told(session) == (TOLD[0][:1], TOLD[1])
    assert (session.session_id, session.agents, session.agent_version) == ("run-7", ("terminus",), "2.0")
    tokens = [
        (one.model, one.input_tokens, one.cached_input_tokens, one.output_tokens) for one in session.llm_calls
    ]
    assert tokens == [("gemini-2.5-flash", 900, 100, 20), ("gemini-2.5-pro", None, None, None)]
    assert (session.tags, session.system_instruction) == (("task=orders",), "Be kind.")
    assert session.start_ns == 1_769_860_801_000_000_000


def line(kind: str, second: int, message: Any, **more: Any) -> dict[str, Any]:
    """Return a line of a transcript of Claude Code."""
    about = {"sessionId": "5f1c", "uuid": f"u{second}", "version": "2.1.17", "isSidechain": False}
    return {
        "type": kind,
        "timestamp": f"2026-01-31T12:00:{second:02}.500Z",
        "message": message,
        **about,
        **more,
    }


USAGE = {
    "input_tokens": 10,
    "cache_read_input_tokens": 90,
    "cache_creation_input_tokens": 0,
    "output_tokens": 7,
}
ANSWER = {"id": "msg_1", "role": "assistant", "model": "claude-sonnet-5", "usage": USAGE}
TRANSCRIPT = [
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
    {"type": "queue-operation", "operation": "dequeue", "sessionId": "5f1c"},
    line("user", 1, {"role": "user", "content": "<command-name>/clear</command-name>"}),
    line("user", 2, {"role": "user", "content": "Caveat: do not answer."}, isMeta=True),
    line("user", 3, {"role": "user", "content": "Where is A1?"}),
    line("assistant", 4, {**ANSWER, "content": [{"type": "thinking", "thinking": "Look."}]}),
    line("assistant", 5, {**ANSWER, "content": [{"type": "text", "text": "A moment."}]}),
    line("assistant", 6, {**ANSWER, "content": ANTHROPIC[1]["content"][1:]}),
    line("user", 7, ANTHROPIC[2], toolUseResult={"status": "shipped"}),
    line("user", 8, {"role": "user", "content": "Find it."}, isSidechain=True),
    line("assistant", 9, {**ANSWER, "id": "msg_2", "content": "It is there."}, isSidechain=True),
    line("assistant", 10, {**ANSWER, "id": "msg_3", "content": [{"type": "text", "text": "It is shipped."}]}),
    line("user", 11, {"role": "user", "content": [{"type": "text", "text": "Thanks"}]}),
    line("assistant", 12, {**ANSWER, "id": "msg_4", "content": [{"type": "text", "text": "Bye."}]}),
]


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.short_form("first", 2)
def test_the_lines_of_a_transcript_of_claude_code_are_one_session(tmp_path, first):
    (session,) = sessions(tmp_path, TRANSCRIPT[first:], lines=True)
    assert told(session) == TOLD
    assert (session.session_id, session.agents, session.agent_version) == (
        "5f1c",
        ("claude-code", "subagent"),
        "2.1.17",
    )
    tokens = [(one.agent, one.input_tokens, one.output_tokens) for one in session.llm_calls]
    assert tokens == [(name, 100, 7) for name in ("claude-code", "subagent", "claude-code", "claude-code")]


def test_a_broken_line_of_a_transcript_is_named_and_the_rest_is_read(tmp_path):
    file = tmp_path / "t.jsonl"
    lines = list(map(json.dumps, TRANSCRIPT))
    file.write_text("\n".join([*lines[:3], '{"type": "user', *lines[3:]]))
    problems: list[Problem] = []
    with spangrade.open(":memory:", settings=None, on_problem=problems.append) as db:
        db.import_files(file)
        (session,) = db
    assert told(session) == TOLD
    assert [one.where for one in problems] == [f"{file}:4"]


SAMPLE = {
    "id": 3,
    "epoch": 2,
    "input": "Where is A1?",
    "messages": [
        *OPENAI[:2],
        {
            "id": "m1",
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "…"}, {"type": "text", "text": "A moment."}],
            "tool_calls": [
                {"id": "c1", "function": "look_up", "arguments": {"order": "A1"}, "type": "function"}
            ],
            "model": "gpt-4o",
        },
        {"role": "tool", "content": '{"status": "shipped"}', "tool_call_id": "c1", "function": "look_up"},
        *OPENAI[4:],
    ],
    "scores": {
        "match": {"value": "C", "answer": "shipped", "explanation": "it says so"},
        "tone": {"value": {"kind": 0.5, "brief": True}},
        "choice": {"value": "B"},
    },
    "metadata": {"level": 2},
    "store": {"orders": 1},
}
INSPECT = {
    "version": 2,
    "status": "success",
    "eval": {"run_id": "r1", "task": "orders", "model": "openai/gpt-4o"},
    "samples": [SAMPLE, {**SAMPLE, "uuid": "own", "scores": None, "store": {}, "metadata": {}}],
}


def test_the_samples_of_a_log_of_inspect_are_sessions(tmp_path):
    by_id = {one.session_id: one for one in sessions(tmp_path, INSPECT)}
    assert by_id.keys() == {"r1/3/2", "own"}
    assert [told(one) for one in by_id.values()] == [TOLD, TOLD]
    session = by_id["r1/3/2"]
    assert (session.question_id, session.state_variables) == ("3", {"orders": 1})
    scores = [(one.name, one.value, one.label, one.explanation) for one in session.recorded_scores]
    assert sorted(scores, key=lambda one: one[0]) == [
        ("choice", None, "B", ""),
        ("match", 1, "C", "it says so"),
        ("tone.brief", 1, None, ""),
        ("tone.kind", 0.5, None, ""),
    ]
    tags = ("inspect.task=orders", "inspect.model=openai/gpt-4o", "level=2", "spangrade.times=unknown")
    assert session.tags == tags
    assert {one.model for one in session.llm_calls} == {"gpt-4o", None}


def test_importing_twice_changes_nothing_and_a_session_without_times_is_not_old(tmp_path):
    file = tmp_path / "s.jsonl"
    file.write_text(json.dumps({"id": "s1", "messages": OPENAI}))
    db = spangrade.open(tmp_path / "s.duckdb", settings=None)
    first = db.import_files(file)
    assert (first.sessions, first.duplicates) == (1, 0)
    again = db.import_files(file)
    assert (again.sessions, again.spans, again.duplicates) == (1, 0, first.spans)
    assert db.delete(before="1d", dry_run=True).sessions == 0


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            {"messages": [{"role": "user", "content": "Hi"}, "Ho"]},
            "messages: expected a list of JSON objects",
        ),
        ({"messages": [{"role": "system", "content": "Hi"}]}, "a conversation without a message"),
        ({"messages": OPENAI, "state": 7}, "state: expected a JSON object of variables"),
        ({"messages": [*OPENAI, {"content": "Hi"}]}, "message 8: expected a role and a content"),
        ({**ATIF, "steps": [{"step_id": 1, "source": "judge"}]}, "step 1: expected the source user, agent"),
        ({**INSPECT, "samples": [{"messages": OPENAI}]}, "not a sample; expected a JSON object with an `id`"),
    ],
)
def test_what_cannot_be_read_is_one_line(document, message):
    (problem,) = records_in(document)
    assert isinstance(problem, Problem)
    assert message in problem.message


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
_KEYS = st.sampled_from(
    [
        *SAMPLE,
        *ATIF,
        *TRANSCRIPT[3],
        *OPENAI[2],
        *ANTHROPIC[1],
        *GEMINI[1],
        *INSPECT,
        "tools",
        "usage",
        "role",
        "state",
    ]
)
_VALUES = st.sampled_from(
    [OPENAI, ANTHROPIC, GEMINI, ATIF["steps"], [SAMPLE], "user", "agent", "assistant", "ATIF-v1.4"]
)


@settings(max_examples=examples(300))
@given(st.sampled_from([{"messages": OPENAI}, ATIF, INSPECT, *TRANSCRIPT]), st.data())
def test_any_value_in_any_place_is_read_or_a_problem(document, data):
    changed = json.loads(json.dumps(document))
    places = [changed]
    for _ in range(data.draw(st.integers(1, 4))):
        place = places[-1]
        inner = place.values() if isinstance(place, dict) else place
        places += [one for one in inner if isinstance(one, dict | list)]
        target = data.draw(st.sampled_from(places))
        value = deepcopy(data.draw(_JSON | _VALUES))
        if isinstance(target, dict):
            target[data.draw(_KEYS)] = value
        else:
            target.append(value)
    for one in records_in(changed) or ():
        assert one is not None


REFUSED, SPOKEN = "I cannot help with that.", "It is shipped."


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"content": None, "refusal": REFUSED}, REFUSED),
        ({"content": "", "refusal": REFUSED}, REFUSED),
        ({"content": [{"type": "refusal", "refusal": REFUSED}]}, REFUSED),
        ({"content": None, "audio": {"id": "a", "data": "UklG", "transcript": SPOKEN}}, SPOKEN),
        ({"content": [{"type": "output_audio", "audio": "UklG", "transcript": SPOKEN}]}, SPOKEN),
        ({"content": {"status": "shipped"}}, '{"status":"shipped"}'),
        ({"content": None, "parsed": {"status": "shipped"}}, '{"status":"shipped"}'),
        ({"content": [{"type": "image_url", "image_url": {"url": "https://x"}}]}, None),
        ({"content": [{"type": "output_audio", "audio": "UklG"}]}, None),
        ({"content": [{"type": "file", "file": {"id": "f1"}}]}, None),
        ({"content": [{"type": "hologram", "scene": "x"}]}, None),
        ({"content": [{"image": {"format": "png", "source": {"bytes": "iVBO"}}}]}, None),
        ({"parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBO"}}]}, None),
        ({"parts": [{"fileData": {"fileUri": "gs://x"}}]}, None),
        ({"parts": [{"text": ""}]}, ""),
        ({"content": [{"type": "text", "text": "See:"}, {"type": "image", "data": "iVBO"}]}, "See:"),
        ({"content": ""}, ""),
        ({"content": []}, ""),
    ],
)
def test_a_reply_is_what_a_person_reads_or_hears_and_without_a_text_unknown(reply, expected, tmp_path):
    messages = [{"role": "user", "content": "Where is A1?"}, {"role": "assistant", **reply}]
    (session,) = sessions(tmp_path, {"messages": messages})
    assert [turn.final_response for turn in session.turns] == [expected]


@pytest.mark.parametrize("kind", ["messages", "langfuse", "adk"])
def test_an_id_that_is_a_number_is_its_text(kind, tmp_path):
    folder = FIXTURES / "forms"
    file = {"messages": "messages_openai", "langfuse": "langfuse_trace", "adk": "adk_session_api"}[kind]
    key = "sessionId" if kind == "langfuse" else "id"
    document = json.loads((folder / f"{file}.json").read_text()) | {key: 7}
    (session,) = sessions(tmp_path, document)
    assert (session.session_id, session.session_id_source) == ("7", "conversation")


def test_what_a_user_said_aloud_is_the_message(tmp_path):
    spoken = {
        "role": "user",
        "content": [{"type": "input_audio", "audio": "UklG", "transcript": "Where is A1?"}],
    }
    (session,) = sessions(tmp_path, {"messages": [spoken, {"role": "assistant", "content": "Shipped."}]})
    assert [turn.user_input for turn in session.turns] == ["Where is A1?"]
