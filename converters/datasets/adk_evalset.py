"""ADK's eval sets (`*.evalset.json`), in snake_case or camelCase, from and into golden questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from spangrade.converters.datasets.adk_events import content_text, objects, parts
from spangrade.converters.datasets.files import load_json, write_new_json
from spangrade.converters.datasets.golden import GoldenQuestion, append, golden_of
from spangrade.converters.datasets.problems import separate
from spangrade.converters.spans.values import either
from spangrade.tracer.span import Problem

_HANDOFF = "transfer_to_agent"


def is_evalset(document: Any) -> bool:
    """Return whether a JSON document is an ADK eval set."""
    return isinstance(document, dict) and isinstance(either(document, "eval_cases"), list)


def questions_of(
    document: Mapping[str, Any], where: str, agent: str | None = None
) -> Iterator[dict[str, Any] | Problem]:
    """Yield a golden question for each eval case, and a Problem for each part that cannot be used.

    An eval set names no agents: `agent` is the one that answers, and with the expected hand-offs it makes the
    trajectory. Without it `agents_evaluated` is the app's name, or empty if the case has none.
    """
    for position, case in enumerate(either(document, "eval_cases")):
        at = f"{where}: eval_cases[{position}]"
        if not isinstance(case, dict):
            yield Problem(at, "not an object")
            continue
        eval_id, turns = either(case, "eval_id"), case.get("conversation")
        if not isinstance(eval_id, str) or not eval_id:
            yield Problem(f"{at}.eval_id", "missing" if eval_id is None else "not a text")
            continue
        at = f'{at} (id "{eval_id}")'
        if not isinstance(turns, list) or not turns:
            yield Problem(f"{at}.conversation", "no turns; a scenario has no user messages")
            continue
        user_inputs = [content_text(either(turn, "user_content")) for turn in turns if isinstance(turn, dict)]
        if len(user_inputs) < len(turns) or None in user_inputs:
            yield Problem(f"{at}.conversation", "a turn whose user_content has no text")
            continue
        calls = []
        for number, turn in enumerate(turns):
            for call in _calls(either(turn, "intermediate_data")):
                if isinstance(call, str):
                    yield Problem(f"{at}.conversation[{number}].intermediate_data", call)
                else:
                    calls.append(call)
        yield _question(
            eval_id, case, content_text(either(turns[-1], "final_response")), user_inputs, calls, agent
        )


def convert(source: Path, output: Path, agent: str | None = None) -> tuple[str, list[Problem]]:
    """Write an eval set's questions into a golden file, or a golden file's into a new eval set.

    Return what was written (`3 questions added`, `3 eval cases written`), and a Problem for each part that
    cannot be used. Raises InputError as `load_json`, `append` and `write_new_json` do.
    """
    document = load_json(source)
    if is_evalset(document):
        questions, problems = separate(questions_of(document, str(source), agent))
        added, more = append(output, questions)
        return f"{added} questions added", [*problems, *more]
    golden = golden_of(document, str(source)).golden_questions
    evalset, problems = evalset_of(golden, output.name.partition(".")[0])
    write_new_json(output, evalset)
    return f"{len(golden)} eval cases written", problems


def evalset_of(questions: Iterable[GoldenQuestion], eval_set_id: str) -> tuple[dict[str, Any], list[Problem]]:
    """Return golden questions as an eval set, and a Problem for each whose calls lose their turn.

    A golden question has its calls and its response for the whole conversation, an eval case by turn: both
    go to the last turn. An eval set has no place for metadata, a trajectory or custom keys.
    """
    cases, problems = [], []
    for question in questions:
        reference, agent = question.reference_data, question.agents_evaluated[0]
        turns: list[dict[str, Any]] = [
            {
                "invocation_id": f"{question.id}-{number}",
                "user_content": {"role": "user", "parts": [{"text": text}]},
                "intermediate_data": {"tool_uses": [], "tool_responses": [], "intermediate_responses": []},
            }
            for number, text in enumerate(question.user_inputs, 1)
        ]
        calls = reference.reference_tool_interactions or ()
        turns[-1]["intermediate_data"]["tool_uses"] = [
            {"name": call.tool_name, "args": call.input_arguments or {}} for call in calls
        ]
        if reference.reference_response is not None:
            turns[-1]["final_response"] = {"role": "model", "parts": [{"text": reference.reference_response}]}
        case: dict[str, Any] = {
            "eval_id": question.id,
            "conversation": turns,
            "session_input": {"app_name": agent, "user_id": "user", "state": {}},
        }
        if reference.reference_state_variables:
            case["final_session_state"] = reference.reference_state_variables
        cases.append(case)
        if len(turns) > 1 and calls:
            text = "the turns of the expected calls are unknown: all calls are in the last turn"
            problems.append(Problem(question.id, text, dropped=False))
    return {"eval_set_id": eval_set_id, "name": eval_set_id, "eval_cases": cases}, problems


def _question(
    eval_id: str,
    case: Mapping[str, Any],
    response: str | None,
    user_inputs: list[str | None],
    calls: list[dict[str, Any]],
    agent: str | None,
) -> dict[str, Any]:
    reference: dict[str, Any] = {"reference_tool_interactions": calls}
    if agent is not None:
        targets = [
            call["input_arguments"].get("agent_name") for call in calls if call["tool_name"] == _HANDOFF
        ]
        reference["reference_trajectory"] = [agent, *(name for name in targets if isinstance(name, str))]
    state = either(case, "final_session_state")
    if isinstance(state, dict) and state:
        reference["reference_state_variables"] = state
    if response is not None:
        reference["reference_response"] = response
    app = either(either(case, "session_input"), "app_name")
    evaluated = agent if agent is not None else app
    return {
        "id": eval_id,
        "user_inputs": user_inputs,
        "agents_evaluated": [evaluated] if isinstance(evaluated, str) else [],
        "reference_data": reference,
    }


def _calls(recorded: Any) -> Iterator[dict[str, Any] | str]:
    """Yield the calls of a turn, listed or in its events; for a call that cannot be used, the reason."""
    calls = objects(either(recorded, "tool_uses"))
    for event in objects(either(recorded, "invocation_events")):
        requested = [either(part, "function_call") for part in parts(event.get("content"))]
        calls += [call for call in requested if isinstance(call, dict)]
    for call in calls:
        name, arguments = call.get("name"), call.get("args")
        if not isinstance(name, str) or not name:
            yield "a call without a name"
        elif not isinstance(arguments, dict | None):
            yield f"the args of {name} are not an object"
        else:
            yield {"tool_name": name, "input_arguments": arguments or {}}
