"""One scenario through the frameworks that people run: every fact of a recording is derived, and no other.

The facts were written down independently of any deriver (`expected.json` in `fixtures/frameworks` and
`fixtures/frameworks_more`): null is what the recording cannot tell, `accept` lists further right values of a
path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import pytest
from recordings import FOLDERS, NAMES, recorded_sessions

EXPECTED: dict[str, dict[str, Any]] = {
    name: facts
    for folder in FOLDERS
    for name, facts in json.loads((folder / "expected.json").read_bytes()).items()
    if name in NAMES
}
# Facts that a dialect leaves unknown. LangSmith: projects disagree on whether its metadata tells them.
UNREAD = {"langgraph_langsmith": ("usage.cached_input_tokens", "usage.reasoning_tokens")}
TOOL_FACTS = ("tool_name", "input_arguments", "output", "ok", "call_id", "turn")
USAGE_FACTS = ("llm_calls", "input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")


def derived(name: str) -> dict[str, Any]:
    """What `show` prints of a recording's sessions, taken together where no id joins them."""
    shown = [json.loads(json.dumps(session.to_json())) for session in recorded_sessions(name)]
    shown.sort(
        key=lambda session: session["session_id_source"] == "trace" and session["turns"][0]["trace_ids"]
    )
    together = shown[0]
    for session in shown[1:]:
        for tool in session["tool_interactions"]:
            tool["turn"] += len(together["turns"])
        for key in ("turns", "tool_interactions", "handoffs", "errors"):
            together[key] += session[key]
        for key in ("agents", "models"):
            together[key] += [one for one in session[key] if one not in together[key]]
        for key in USAGE_FACTS:
            if session["usage"][key] is not None:
                together["usage"][key] = (together["usage"][key] or 0) + session["usage"][key]
    if together["session_id_source"] == "trace":
        together["session_id"] = None
    return together


def plain(value: Any) -> Any:
    """A value to compare: JSON text is its value, white space around a text does not count."""
    if isinstance(value, str):
        try:
            return plain(json.loads(value))
        except ValueError:
            return value.strip() or None
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def right(facts: dict[str, Any], path: str, expected: Any, actual: Any) -> bool:
    values = [plain(value) for value in [expected, *facts.get("accept", {}).get(path, ())]]
    contained = [v["$contains"] for v in values if isinstance(v, dict) and set(v) == {"$contains"}]
    return plain(actual) in values or any(
        text in json.dumps(actual, ensure_ascii=False) for text in contained
    )


def in_order(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tools by turn; within one, calls of one model message may come in either order: those by their ids."""
    return sorted(tools, key=lambda tool: (tool["turn"], str(tool["call_id"])))


def wrong(facts: dict[str, Any], actual: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the path, the expected and the derived value of every fact that is not right."""
    pairs = [(key, facts[key], actual[key]) for key in ("session_id", "agents", "handoffs")]
    for i, (expected, found) in enumerate(zip_longest(facts["turns"], actual["turns"], fillvalue={})):
        pairs += [
            (f"turns[{i}].{key}", expected.get(key, "no such turn"), found.get(key))
            for key in ("user_input", "final_response")
        ]
    optional = {tool["tool_name"] for tool in facts.get("optional_tool_interactions", ())}
    called = [t for t in actual["tool_interactions"] if not t["handoff"] and t["tool_name"] not in optional]
    for i, (expected, found) in enumerate(
        zip_longest(in_order(facts["tool_interactions"]), in_order(called), fillvalue={})
    ):
        pairs += [
            (f"tools[{i}].{key}", expected.get(key, "no such call"), found.get(key)) for key in TOOL_FACTS
        ]
    usage = facts["usage"] or {}  # null: nothing of it is recorded
    pairs += [(f"usage.{key}", usage.get(key), actual["usage"][key]) for key in USAGE_FACTS]
    same = {alias: name for name, aliases in (facts.get("model_aliases") or {}).items() for alias in aliases}
    models = actual["models"] and sorted({same.get(name, name) for name in actual["models"]})
    pairs.append(("models", facts["models"] and sorted(facts["models"]), models))
    state = actual["state_variables"]
    pairs.append(
        (
            "state_variables",
            facts["state_variables"],
            state and {k: v for k, v in state.items() if k != "messages"},
        )
    )
    failed = [error["where"] for error in actual["errors"]]
    tolerated = {error["where"] for error in facts.get("errors_also") or ()}
    if "*" not in tolerated:
        failed = [where for where in failed if where not in tolerated]
    named = [error["where"] for error in facts["errors"]]  # "llm" alone is any model
    failed = [
        n if f == n or f.startswith(f"{n} ") else f for f, n in zip_longest(failed, named, fillvalue="")
    ]
    pairs.append(("errors", named, failed))
    for path, expected, found in pairs:
        if not right(facts, path, expected, found):
            yield path, expected, found
    for i, (expected, found) in enumerate(zip(facts["errors"], actual["errors"], strict=False)):
        if expected["message"] not in (found["message"] or "") and not right(
            facts, f"errors[{i}].message", expected["message"], found["message"]
        ):
            yield f"errors[{i}].message", expected["message"], found["message"]


@pytest.mark.parametrize("name", EXPECTED)
def test_every_fact_of_a_recording_is_derived_and_none_is_guessed(name: str) -> None:
    found = [(path, value) for path, _, value in wrong(EXPECTED[name], derived(name))]
    assert found == [(path, None) for path in UNREAD.get(name, ())]
