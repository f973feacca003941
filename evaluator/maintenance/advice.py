"""How to fix a gap or an error in a recording."""

from __future__ import annotations

from spangrade.converters.spans.registry import Lack, setting
from spangrade.converters.spans.session_attributes import candidate_names, placeholder_in
from spangrade.converters.spans.values import mask_in
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.span import Span

_EXPORT = (
    "export all spans of a trace to one place, wait for them (flush at the end of the process), "
    "and sample whole traces"
)
_NAME_MODEL = (
    "record gen_ai.response.model and gen_ai.provider.name as the provider names them, or update genai-prices"
)
# By the code of a finding.
_FIXES = {
    "not_loaded": "they were damaged on disk: import the spans again from their source; delete the files, "
    "as `spangrade delete --before` does, if they are of no use",
    "not_delivered": "repair the receiver; the verdicts themselves are in the tables `verdicts` and `scores`",
    "not_assembled": "report it, with the session's spans, to the authors of spangrade",
    "unreadable_spans": "report it, with the span's attributes, to the authors of the dialect",
    "missing_spans": _EXPORT,
    "orphans": _EXPORT,
    "no_root": "export the caller's spans too; if the caller is not part of the agent, nothing is wrong",
    "unfinished": "end every span, and shut the tracer provider down before the process ends",
    "clock_skew": "synchronise the clocks of the recording machines (NTP)",
    "not_recorded": "correct the call that the spans' attribute spangrade.not_recorded names; "
    'the logger "spangrade" gives the reason',
    "calls_unknown": "report the type of the part, with an example, to the authors of spangrade; if it is a "
    "call, record its span",
    "sampled": "sample whole conversations, by configure(sample=RATIO), instead of traces",
    "doubtful_tokens": "count the cached tokens in gen_ai.usage.input_tokens, and them alone in "
    "gen_ai.usage.cache_read.input_tokens",
    "unknown_price": f"{_NAME_MODEL}; or put the model's price into the table [[prices]] of the settings",
    "unknown_context_window": _NAME_MODEL,
    "may_continue": "record a conversation id on every run, or import the runs before this one",
    "id_reused": "give each conversation an id of its own",
    "no_duration": "record the end of the span that stands for a turn",
}
# What a stack's setting records, by the code of a finding.
LACKS: dict[str, Lack] = {
    "no_user_input": "content",
    "no_response": "replies",
    "no_tool_arguments": "content",
    "no_tool_result": "content",
    "removed_arguments": "content",
    "no_conversation_id": "conversation",
    "no_agents": "agents",
    "no_tool_span": "tools",
    "no_model_calls": "model_calls",
    "no_tokens": "tokens",
    "no_state": "state",
}


def advice(code: str, span: Span | None = None, *, partly: bool = False) -> str | None:
    """Return how to fix a finding, by the stack of a span of the session; None if no way is known.

    `partly` is whether the stack records other contents of the kind that lacks.
    """
    lack = LACKS.get(code)
    if lack is None:
        return _FIXES.get(code)
    help_ = setting(span, lack, partly=partly)
    if lack in ("content", "replies") and span is not None and (mask := mask_in(span.attributes.values())):
        help_ = f"{help_} (they were removed: `{mask}` stands in their place)"
    if lack == "conversation":
        names = [] if span is None else candidate_names(span.attributes)
        which = f" (the spans have {', '.join(names)})" if names else ""
        if span is not None and (found := placeholder_in(span.attributes)):
            help_ = f"{help_} (`{found[0]}` of {canonical(found[1])} is none)"
        return (
            f"{help_}; or name the attribute that holds the conversation's id{which}: "
            "spangrade import --session-from ATTRIBUTE"
        )
    return help_


def not_understood(scope: str) -> str:
    """Return advice on spans of a scope that no dialect understood."""
    ours = "if an agent recorded them: update spangrade, or write a dialect for them (docs/reading.md)"
    return f"{ours}; if not: spangrade import --ignore-scope {scope}" if scope else ours
