"""ADK's eval sets (`*.evalset.json`), in snake_case or camelCase, from and into golden questions.

The old form, a list of `{name, data, initial_session}`, is read too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spangrade.converters.datasets.adk_events import content_text, objects, parts
from spangrade.converters.datasets.files import load_json, separate, write_new_json
from spangrade.converters.datasets.golden import (
    EndsWhen,
    GoldenQuestion,
    Persona,
    ReferenceToolInteraction,
    Scenario,
    append,
    golden_of,
    text_of,
)
from spangrade.converters.datasets.recognized import is_evalset
from spangrade.converters.spans.parts import answer_in, is_answer
from spangrade.converters.spans.values import either
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.span import Problem

_HANDOFF = "transfer_to_agent"
_STATUSES = ("ok", "error")
ADK_PERSONAS = ("EXPERT", "NOVICE", "EVALUATOR")  # those that ADK has by name
RUBRICS = "rubrics"  # in reference_data: the texts that `rubrics@judge` rates a session by


def questions_of(document: Any, where: str, agent: str | None = None) -> Iterator[dict[str, Any] | Problem]:
    """Yield a golden question for each eval case, and a Problem for each part that cannot be used.

    An eval set names no agents: `agent` is the one that answers, and with the expected hand-offs it makes the
    trajectory. Without it `agents_evaluated` is the app's name, or empty if the case has none.

    Rubrics become the custom reference `rubrics`. Parts that a golden question has no place for are Problems
    that drop nothing else.
    """
    old = isinstance(document, list)
    for position, case in enumerate(document if old else either(document, "eval_cases")):
        at = f"{where}: [{position}]" if old else f"{where}: eval_cases[{position}]"
        if not isinstance(case, dict):
            yield Problem(at, "not an object")
            continue
        if old:
            case = _modern(case)
        eval_id, turns = either(case, "eval_id"), case.get("conversation")
        if not isinstance(eval_id, str) or not eval_id:
            yield Problem(
                f"{at}.{'name' if old else 'eval_id'}", "missing" if eval_id is None else "not a text"
            )
            continue
        at = f'{at} (id "{eval_id}")'
        if isinstance(scenario := either(case, "conversation_scenario"), dict):
            rubrics, problems = separate(_rubrics(case, (), at))
            yield from problems
            yield _question(eval_id, case, (), {"scenario": _scenario(scenario)}, [], rubrics, agent)
            continue
        if not isinstance(turns, list) or not turns:
            yield Problem(f"{at}.conversation", "no turns, and no conversation_scenario")
            continue
        while len(turns) > 1 and _opens_with_the_agent(turns[0]):
            text = "it opens with the agent: this turn is left out, a question begins with the user"
            yield Problem(f"{at}.conversation", text, dropped=False)
            turns = turns[1:]
        user_inputs = [content_text(either(turn, "user_content")) for turn in turns if isinstance(turn, dict)]
        if len(user_inputs) < len(turns) or None in user_inputs:
            yield Problem(f"{at}.conversation", "a turn whose user_content has no text")
            continue
        calls, problems = separate(_calls(turns, at))
        yield from problems
        rubrics, problems = separate(_rubrics(case, turns, at))
        yield from problems
        yield from _left_out(turns, at)
        yield _question(eval_id, case, turns, {"user_inputs": user_inputs}, calls, rubrics, agent)


def _scenario(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return ADK's scenario as that of a golden question; each line of its plan is a part."""
    plan, persona = either(given, "conversation_plan"), either(given, "user_persona")
    lines = plan.split("\n") if isinstance(plan, str) else plan
    scenario = {
        "starting_prompt": either(given, "starting_prompt"),
        "plan": lines if not isinstance(plan, str) or all(lines) else [plan] if plan else [],
    }
    return scenario if persona is None else {**scenario, "persona": persona}


def _adk_scenario(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario of a golden question as ADK's, whose user knows only the plan."""
    plan = "\n".join(scenario.filled_plan)
    if scenario.facts:
        plan += "\nYou know: " + "; ".join(f"{name}: {text}" for name, text in scenario.facts.items())
    persona: Any = scenario.persona
    if isinstance(persona, Persona):
        persona = persona.model_dump(mode="json", exclude_unset=True)
    elif persona is not None and persona not in ADK_PERSONAS:  # ADK knows no others by a text alone
        persona = {"id": "persona", "description": persona, "behaviors": []}
    found = {"starting_prompt": scenario.starting_prompt, "conversation_plan": plan}
    return found if persona is None else {**found, "user_persona": persona}


def _modern(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return an eval case of the old form in the new one."""
    turns = case.get("data")
    return {
        "eval_id": case.get("name"),
        "session_input": case.get("initial_session"),
        "conversation": [_modern_turn(turn) if isinstance(turn, dict) else turn for turn in turns]
        if isinstance(turns, list)
        else None,
    }


def _modern_turn(turn: Mapping[str, Any]) -> dict[str, Any]:
    uses = [
        {"name": use.get("tool_name"), "args": use.get("tool_input")}
        for use in objects(turn.get("expected_tool_use"))
    ]
    return {
        "user_content": _content("user", turn.get("query")),
        "final_response": _content("model", turn.get("reference")),
        "intermediate_data": {
            "tool_uses": uses,
            "intermediate_responses": turn.get("expected_intermediate_agent_responses"),
            "mocked": [use for use in objects(turn.get("expected_tool_use")) if "mock_tool_output" in use],
        },
    }


def _content(role: str, text: Any) -> dict[str, Any] | None:
    return {"role": role, "parts": [{"text": text}]} if isinstance(text, str) else None


def _opens_with_the_agent(turn: Any) -> bool:
    if not isinstance(turn, dict) or content_text(either(turn, "user_content")):
        return False
    return content_text(either(turn, "final_response")) is not None


def _rubrics(case: Mapping[str, Any], turns: Sequence[Mapping[str, Any]], at: str) -> Iterator[str | Problem]:
    """Yield the texts of a case's rubrics, those of one turn with its number."""
    places = [("", f"{at}.rubrics", case), *_turns_at(turns, at, "rubrics")]
    for prefix, where, holder in places:
        rubrics = holder.get("rubrics")
        if not isinstance(rubrics, list | None):
            yield Problem(where, "not a list")
            continue
        for number, rubric in enumerate(rubrics or ()):
            text = either(either(rubric, "rubric_content"), "text_property")
            if isinstance(text, str) and text:
                yield f"{prefix}{text}"
            else:
                yield Problem(f"{where}[{number}]", "a rubric without a text")


def _turns_at(
    turns: Sequence[Mapping[str, Any]], at: str, key: str
) -> list[tuple[str, str, Mapping[str, Any]]]:
    alone = len(turns) == 1
    return [
        ("" if alone else f"Turn {number}: ", f"{at}.conversation[{number - 1}].{key}", turn)
        for number, turn in enumerate(turns, 1)
    ]


def _left_out(turns: Sequence[Mapping[str, Any]], at: str) -> Iterator[Problem]:
    """Yield the parts of a case for which a golden question has no field."""
    early = sum(content_text(either(turn, "final_response")) is not None for turn in turns[:-1])
    if early:
        text = (
            f"{early} expected responses before the last turn are left out: a question expects the last one"
        )
        yield Problem(at, text, dropped=False)
    if any(either(either(turn, "intermediate_data"), "intermediate_responses") for turn in turns):
        yield Problem(at, "the expected intermediate responses are left out", dropped=False)
    if any(either(either(turn, "intermediate_data"), "mocked") for turn in turns):
        yield Problem(at, "the mocked outputs of tools are left out", dropped=False)


def convert(source: Path, output: Path, agent: str | None = None) -> tuple[str, list[Problem]]:
    """Write an eval set's questions into a golden file, or a golden file's into a new eval set.

    Return what was written (`3 questions added`, `3 eval cases written`), and a Problem for each part that
    cannot be used. Raises InputError as `load_json`, `append` and `write_new_json` do, and for a conversation
    log.
    """
    document = load_json(source)
    if is_evalset(document):
        questions, problems = separate(questions_of(document, str(source), agent))
        added, more = append(output, questions)
        return f"{counted(added, 'question')} added", [*problems, *more]
    golden = golden_of(document, str(source)).golden_questions
    evalset, problems = evalset_of(golden, output.name.partition(".")[0])
    write_new_json(output, evalset)
    return f"{counted(len(golden), 'eval case')} written", problems


def evalset_of(questions: Iterable[GoldenQuestion], eval_set_id: str) -> tuple[dict[str, Any], list[Problem]]:
    """Return golden questions as an eval set, and a Problem for each part that has no place in one.

    A golden question has its calls and its response for the whole conversation, an eval case by turn: both
    go to the last turn. A call's status and output become a tool response.
    """
    cases, problems = [], []
    for question in questions:
        if question.user_values:
            text = "its user inputs have names for values; an eval set needs the texts themselves"
            problems.append(Problem(question.id, text))
            continue
        reference, scenario = question.reference_data, question.scenario
        turns: list[dict[str, Any]] = [
            {"invocation_id": f"{question.id}-{number}", "user_content": _content("user", text)}
            for number, text in enumerate(question.user_inputs, 1)
        ]
        calls = reference.reference_tool_interactions or ()
        if reference.reference_tool_interactions is not None:
            for turn in turns:
                turn["intermediate_data"] = {
                    "tool_uses": [],
                    "tool_responses": [],
                    "intermediate_responses": [],
                }
        for number, call in enumerate(calls, 1):
            use, response = _use(call, f"{question.id}-call-{number}")
            turns[-1]["intermediate_data"]["tool_uses"].append(use)
            turns[-1]["intermediate_data"]["tool_responses"] += response
        if reference.reference_response is not None:
            turns[-1]["final_response"] = _content("model", text_of(reference.reference_response))
        given = getattr(question, "session_input", None)
        default = {"app_name": (*question.agents_evaluated, "app")[0], "user_id": "user", "state": {}}
        case: dict[str, Any] = {"eval_id": question.id}
        if scenario is None:
            case["conversation"] = turns
        else:
            case["conversation_scenario"] = _adk_scenario(scenario)
        case["session_input"] = {**default, **(given if isinstance(given, dict) else {})}
        if reference.reference_state_variables:
            case["final_session_state"] = reference.reference_state_variables
        if rubrics := _texts(getattr(reference, RUBRICS, None)):
            case["rubrics"] = [
                {"rubric_id": f"{question.id}-rubric-{number}", "rubric_content": {"text_property": text}}
                for number, text in enumerate(rubrics, 1)
            ]
        cases.append(case)
        if len(turns) > 1 and calls:
            text = "the turns of the expected calls are unknown: all calls are in the last turn"
            problems.append(Problem(question.id, text, dropped=False))
        if lost := _without_a_place(question):
            problems.append(
                Problem(question.id, f"left out, an eval set has no place for it: {lost}", dropped=False)
            )
    return {"eval_set_id": eval_set_id, "name": eval_set_id, "eval_cases": cases}, problems


def _use(call: ReferenceToolInteraction, call_id: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return an expected call as a tool use, and its status and output as a tool response."""
    use: dict[str, Any] = {"name": call.tool_name, "args": call.input_arguments or {}}
    if call.status is None and call.output is None:
        return use, []
    response = {} if call.output is None else _as_response(call.output)
    if call.status is not None:
        response = {**response, "status": call.status}
    return {"id": call_id, **use}, [{"id": call_id, "name": call.tool_name, "response": response}]


def _as_response(output: Any) -> dict[str, Any]:
    return output if isinstance(output, dict) else {"result": output}


_OF_TURNS = ("reference_tool_interactions", "reference_response")
_WITHOUT_A_PLACE = (
    "forbidden_tools",
    "no_further_calls",
    "at_most",
    "before",
    "failed_calls",
    "required_texts",
    "reference_state_exact",
    "forbidden_texts",
    "assertions",
    "max_cost_usd",
    "max_latency_s",
)


def _without_a_place(question: GoldenQuestion) -> str:
    reference = question.reference_data
    targets = [
        (call.input_arguments or {}).get("agent_name")
        for call in reference.reference_tool_interactions or ()
        if call.tool_name == _HANDOFF
    ]
    lost = [key for key in ("metadata",) if question.metadata]
    if (scenario := question.scenario) is not None:
        lost += ["scenario.facts, which are in the plan's text"] if scenario.facts else []
        lost += ["scenario.ends_when"] if scenario.ends_when != EndsWhen() else []
        lost += [key for key in _OF_TURNS if question.reference(key) is not None]
    lost += ["reference_tool_alternatives"] if reference.reference_tool_alternatives else []
    lost += [key for key in _WITHOUT_A_PLACE if question.reference(key) is not None]
    lost += (
        [f"agents_evaluated beyond {question.agents_evaluated[0]}"] if question.agents_evaluated[1:] else []
    )
    if reference.reference_trajectory not in (None, (*question.agents_evaluated[:1], *targets)):
        lost.append("reference_trajectory")
    lost += [key for key in question.model_extra or () if key not in ("session_input", "updated_datetime")]
    lost += [f"reference_data.{key}" for key in reference.model_extra or () if key != RUBRICS]
    return ", ".join(lost)


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _question(
    eval_id: str,
    case: Mapping[str, Any],
    turns: Sequence[Mapping[str, Any]],
    asked: Mapping[str, Any],
    calls: list[dict[str, Any]],
    rubrics: list[str],
    agent: str | None,
) -> dict[str, Any]:
    has_calls = any(either(turn, "intermediate_data") is not None for turn in turns)
    reference: dict[str, Any] = {"reference_tool_interactions": calls} if has_calls else {}
    if agent is not None:
        targets = [
            call["input_arguments"].get("agent_name") for call in calls if call["tool_name"] == _HANDOFF
        ]
        reference["reference_trajectory"] = [agent, *(name for name in targets if isinstance(name, str))]
    state = either(case, "final_session_state")
    if isinstance(state, dict) and state:
        reference["reference_state_variables"] = state
    response = _response(turns[-1]) if turns else None
    if response is not None:
        reference["reference_response"] = response
    if rubrics:
        reference[RUBRICS] = rubrics
    session_input = either(case, "session_input")
    app = either(session_input, "app_name")
    evaluated = agent if agent is not None else app
    question = {
        "id": eval_id,
        **asked,
        "agents_evaluated": [evaluated] if isinstance(evaluated, str) else [],
        "reference_data": reference,
    }
    if not isinstance(session_input, dict) or not session_input.get("state"):
        return question
    given = {key: either(session_input, key) for key in ("app_name", "user_id", "state")}
    return {**question, "session_input": {key: value for key, value in given.items() if value is not None}}


def _response(turn: Mapping[str, Any]) -> str | None:
    """Return the expected reply of a turn: its text, or the answer that a call gives."""
    called = ((call.get("name"), call.get("args")) for call in _recorded(turn)[0])
    return content_text(either(turn, "final_response")) or answer_in(called)


def _recorded(turn: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the calls of a turn and their responses, listed or in its events."""
    recorded = either(turn, "intermediate_data")
    calls, responses = objects(either(recorded, "tool_uses")), objects(either(recorded, "tool_responses"))
    for event in objects(either(recorded, "invocation_events")):
        for part in parts(event.get("content")):
            calls += objects([either(part, "function_call")])
            responses += objects([either(part, "function_response")])
    return calls, responses


def _calls(turns: Sequence[Mapping[str, Any]], at: str) -> Iterator[dict[str, Any] | Problem]:
    """Yield the calls of the turns, listed or in their events, with their results."""
    for number, turn in enumerate(turns):
        where = f"{at}.conversation[{number}].intermediate_data"
        calls, responses = _recorded(turn)
        for call in calls:
            name, arguments = call.get("name"), call.get("args")
            if not isinstance(name, str) or not name:
                yield Problem(where, "a call without a name")
            elif not isinstance(arguments, dict | None):
                yield Problem(where, f"the args of {name} are not an object")
            else:
                expected = {"tool_name": name, "input_arguments": arguments or {}, **_result(call, responses)}
                if not is_answer(name):
                    yield expected
        if responses:
            names = ", ".join(str(response.get("name")) for response in responses)
            yield Problem(where, f"tool responses without a call: {names}")


def _result(call: Mapping[str, Any], responses: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the status and the output of a call by its response, which is removed from the list."""
    by_id = (each for each in responses if call.get("id") and each.get("id") == call["id"])
    by_name = (each for each in responses if not each.get("id") and each.get("name") == call["name"])
    response = next(by_id, next(by_name, None))
    if response is None:
        return {}
    responses.remove(response)
    result = response.get("response")
    if not isinstance(result, dict):
        return {} if result is None else {"output": result}
    status = result.get("status")
    known = {"status": status} if status in _STATUSES else {}
    rest = {key: value for key, value in result.items() if key not in known}
    if rest.keys() == {"result"}:
        return {**known, "output": rest["result"]}
    if known and not rest:
        return known
    return {**known, "output": result} if result else {}
