"""What would mend a recording: the settings by which each family of instrumentations records more.

Each was looked up in the instrumentation's own documentation or source: the links are in docs/dialects.md.
"""

from __future__ import annotations

from spangrade.converters.spans.registry import FALLBACK, dialects
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE
from spangrade.tracer.span import Span

_GENAI = (
    f"set {CAPTURE_CONTENT_VARIABLE}=SPAN_AND_EVENT and "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental (older instrumentations: "
    f"{CAPTURE_CONTENT_VARIABLE}=true, and import the logs too)"
)
# By dialect, or by the beginning of the scope's name where several instrumentations share a dialect.
_CONTENT = {
    "adk": f"set {CAPTURE_CONTENT_VARIABLE}=SPAN_AND_EVENT, and do not set "
    "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false",
    "openai-agents": f"set {CAPTURE_CONTENT_VARIABLE}=span_and_event, and do not set "
    "OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA=0",
    "openinference": "take back OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and the like",
    "pydantic-ai": "set InstrumentationSettings(include_content=True)",
    "traceloop": "take back TRACELOOP_TRACE_CONTENT=false",
    "agent_framework": "set ENABLE_SENSITIVE_DATA=true",
    "spangrade": f"take back {CAPTURE_CONTENT_VARIABLE}=NO_CONTENT",
}
_CONVERSATION = {
    "openinference": "wrap the agent in using_session(session_id=…)",
    "strands": 'give the agent trace_attributes={"session.id": …}',
}


def content(span: Span | None) -> str:
    """Return what makes the instrumentation that wrote a span record messages, arguments and results."""
    return _of(_CONTENT, span) or _GENAI


def conversation(span: Span | None) -> str:
    """Return what puts a conversation id on the spans of the instrumentation that wrote one."""
    own = _of(_CONVERSATION, span)
    return (
        f"{own or 'put gen_ai.conversation.id on the spans'}, or name the attribute that holds the "
        "conversation's id: spangrade import --session-from ATTRIBUTE"
    )


def dialect_of(span: Span) -> str:
    """Return the name of the dialect that reads a span."""
    return next((name for name, dialect in dialects().items() if dialect.claims(span)), FALLBACK)


def _of(advice: dict[str, str], span: Span | None) -> str | None:
    if span is None:
        return None
    scope = span.scope_name or ""
    return advice.get(dialect_of(span)) or next(
        (text for name, text in advice.items() if scope.startswith(name)), None
    )
