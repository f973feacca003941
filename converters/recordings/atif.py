"""Trajectories of agents in the Agent Trajectory Interchange Format (ATIF), as Harbor and others write them.

A step of the agent is a call of its model with its text, its tool calls and what was observed. Sub-agents'
trajectories are files of their own.

https://www.harborframework.com/docs/agents/trajectory-format
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from spangrade.converters.recordings import plain
from spangrade.converters.recordings.conversations import RecordedConversation, Said, tags_of
from spangrade.converters.recordings.messages import of_model, read_all, session_id
from spangrade.converters.spans.messages import Message, message_of
from spangrade.converters.spans.observation import MessageCall, ToolResult
from spangrade.converters.spans.parts import answer_in, unwrapped, with_mark
from spangrade.converters.spans.values import arguments_in, json_text, text
from spangrade.tracer import semconv
from spangrade.tracer.otlp.common import MalformedError
from spangrade.tracer.span import Problem, Span

_VERSION = "ATIF-v"
_ROLES = {"user": "user", "agent": "assistant", "system": "system"}


def read(document: Any) -> Iterator[Span | Problem] | None:
    """Return a trajectory, or a list of them, as spans; None if the document is something else."""
    documents = document if isinstance(document, list) else [document]
    if not documents or not isinstance(documents[0], dict):
        return None
    if not str(documents[0].get("schema_version") or "").startswith(_VERSION):
        return None
    is_list = isinstance(document, list)
    numbered = [(one, f"[{number}]" if is_list else "") for number, one in enumerate(documents)]
    return read_all(numbered, _conversation)


def _conversation(document: Any) -> RecordedConversation:
    if not isinstance(document, dict):
        raise MalformedError("not a trajectory; expected a JSON object")
    steps = plain.objects(document.get("steps"), "steps")
    agent = plain.json_object(document.get("agent"), "agent")
    name, version = text(agent.get("name")), text(agent.get("version"))
    about = {**tags_of(document.get("extra")), semconv.AGENT_VERSION: version}
    return RecordedConversation(
        session_id(document, steps),
        [one for step in steps if not step.get("is_copied_context") for one in _said(step, agent, name)],
        about={key: value for key, value in about.items() if value is not None},
        declared=agent.get("tool_definitions"),
    )


def _said(step: Mapping[str, Any], agent: Mapping[str, Any], name: str | None) -> Iterator[Said]:
    """Yield a step's messages and, after them, its observations."""
    role = _ROLES.get(str(step.get("source")))
    if role is None:
        raise MalformedError(f"step {step.get('step_id')}: expected the source user, agent or system")
    stamp = step.get("timestamp")
    time_ns = None if stamp is None else plain.time_ns(stamp, f"the timestamp of step {step.get('step_id')}")
    spoken = message_of({"role": role, "content": step.get("message")})
    calls = tuple(
        MessageCall(
            text(call.get("function_name")),
            text(call.get("tool_call_id")),
            arguments_in(call),
        )
        for call in plain.objects(step.get("tool_calls"), "tool_calls")
    )
    answered = answer_in((call.name, call.arguments) for call in calls)
    message = Message(role, answered or (None if spoken is None else spoken.text), calls)
    if role != "assistant":
        yield Said(message, time_ns)
        return
    metrics = plain.json_object(step.get("metrics"), "metrics")
    usage = {key: metrics.get(key) for key in ("prompt_tokens", "completion_tokens")}
    usage["prompt_tokens_details"] = {"cached_tokens": metrics.get("cached_tokens")}
    model = step.get("model_name") or agent.get("model_name")
    yield Said(message, time_ns, name, of_model({"model": model, "usage": usage}))
    observation = plain.json_object(step.get("observation"), "observation")
    results = tuple(
        with_mark(
            ToolResult(None, text(one.get("source_call_id")), json_text(unwrapped(one.get("content")))), one
        )
        for one in plain.objects(observation.get("results"), "results")
    )
    if results and calls:
        yield Said(Message("tool", None, (), results), time_ns)
