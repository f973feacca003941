"""The settings that make the stack of a span record more: they stand in the dialects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Literal

from spangrade.converters.spans.advice import GENAI_CONTENT, Advice
from spangrade.converters.spans.registry import dialect_of, dialects
from spangrade.tracer.span import Span

Lack = Literal["content", "replies", "conversation", "agents", "tools", "model_calls", "tokens", "state"]

_OF_CONTENTS = ("content", "replies")
_STATE = "call spangrade.set_state(), or record a spangrade.state event on any span"
_BY_HAND = (
    "put gen_ai.input.messages and gen_ai.output.messages, or gen_ai.tool.call.arguments and "
    "gen_ai.tool.call.result, on the spans"
)
# What can be done in any stack: a span, or an attribute of one.
ANY = Advice(
    name="the GenAI conventions",
    content=GENAI_CONTENT,
    conversation="put gen_ai.conversation.id on the spans",
    agents="record gen_ai.agent.name on a span around each agent's run",
    tools="record an execute_tool span around each tool call",
    model_calls="instrument the model client, or switch on the framework's own spans of model calls",
    tokens="record gen_ai.usage.input_tokens and gen_ai.usage.output_tokens; for streamed answers "
    "some model clients report usage only on request",
    state=_STATE,
)


@cache
def advice_by_scope() -> Mapping[str, Advice]:
    """Return the settings of the instrumentations that share a dialect, by the beginning of their scope."""
    return {scope: advice for each in dialects().values() for scope, advice in each.advice_by_scope.items()}


def stack_of(span: Span) -> Advice:
    """Return the stack that recorded a span: by the beginning of its scope's name, and by its dialect."""
    scope = span.scope_name or ""
    by_scope = advice_by_scope()
    scopes = [name for name in by_scope if scope.startswith(name)]
    own = by_scope.get(max(scopes, key=len, default=""), ANY)
    shared = dialect_of(span).advice or ANY
    if own is ANY or shared is ANY:
        return shared if own is ANY else own
    missing = {lack: text for lack, text in shared._asdict().items() if getattr(own, lack) is None}
    return own._replace(**missing)


def setting(span: Span | None, lack: Lack, *, partly: bool = False) -> str:
    """Return how to make the stack that recorded a span record a missing fact.

    Of an unknown stack, it is what helps any that follows the conventions. If it records a part of the
    contents, the setting for them is in force.
    """
    stack = ANY if span is None else stack_of(span)
    if partly and lack in _OF_CONTENTS and stack.replies is None:
        return _BY_HAND if stack is ANY else f"{stack.name} records other contents here: {_BY_HAND}"
    own: str | None = getattr(stack, lack)
    if lack == "replies" and own is None:
        own = stack.content
    if stack is ANY or own is not None:
        return f"{stack.name}: {own}" if stack is not ANY else own or ""
    general = _BY_HAND if lack in _OF_CONTENTS else getattr(ANY, lack)
    return f"{stack.name} has no setting for it: {general}"


def all_settings(spans: Iterable[Span | None], lack: Lack) -> str:
    """Return what `setting` says of each stack that recorded one of these spans."""
    return "; ".join(dict.fromkeys(setting(span, lack) for span in spans)) or setting(None, lack)
