"""Gaps in a session's recording: a table of checks, each of one kind of fact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from spangrade.converters.datasets.call_rules import KINDS
from spangrade.evaluator.derive.sync.recorded import Place, place_of
from spangrade.evaluator.session import LLMCall, Session, ToolInteraction, Turn

_TRAJECTORY = ("trajectory", "trajectory_accuracy")
_TOOLS = ("tools", "tool_usage_accuracy")
OF_TOKENS = ("token_usage", "cost", "max_cost_usd", "output_density", "context_saturation")
OF_CALLS = (*OF_TOKENS, "cache_efficiency", "thinking_metrics", "grounding_utilization", "sandbox_usage")


class Gap(NamedTuple):
    """What a finding is made of; `at` is a span of the stack that should have recorded more.

    `partly` is whether the session has other contents of that kind, so that contents are recorded.
    """

    code: str
    what: str
    number: int
    metrics: tuple[str, ...] = ()
    at: Place | None = None
    partly: bool = False


class _Check(NamedTuple):
    """One kind of fact: its finding, and the parts of a session that lack it, in the order of its spans.

    Calls and tools that lack it are given, so that the advice is that of their stack. `of_calls` is true for
    what only sessions with model calls can lack.
    """

    code: str
    what: str
    metrics: tuple[str, ...]
    lacking: Callable[[Session], Sequence[object]]
    of_calls: bool = False


def session_gaps(s: Session) -> Iterator[Gap]:
    """Yield the gaps in a session's recording."""
    for check in _CHECKS:
        if check.of_calls and not s.llm_calls:
            continue
        if lacking := check.lacking(s):
            what = check.what.format(models=_models(lacking), reasons=_reasons(lacking))
            partly = check.code in _CONTENTS and _CONTENTS[check.code](s)
            yield Gap(check.code, what, len(lacking), check.metrics, _place(lacking[0], s), partly)


def _place(first: object, s: Session) -> Place | None:
    """Return the span of a call or tool, or of a turn's first; of anything else, of the session's first."""
    if isinstance(first, LLMCall | ToolInteraction) and first.span_id:
        return first.trace_id, first.span_id
    if isinstance(first, Turn):
        calls = (call for call in s.llm_calls if call.turn == first.turn and call.span_id)
        return next(((call.trace_id, call.span_id) for call in calls), None) or place_of(s)
    return place_of(s)


def _models(lacking: Sequence[object]) -> str:
    calls = [call for call in lacking if isinstance(call, LLMCall)]
    return ", ".join(sorted({_model(call) for call in calls}))


def _reasons(lacking: Sequence[object]) -> str:
    turns = [turn for turn in lacking if isinstance(turn, Turn)]
    return "; ".join(dict.fromkeys(turn.calls_unknown or "" for turn in turns))


def _model(call: LLMCall) -> str:
    provider = f"provider `{call.provider}`" if call.provider else "an unknown provider"
    return f"{call.model or 'a model without a name'} of {provider}"


def _if(lacking: bool) -> Sequence[object]:
    """Return one thing that a session lacks as a whole, or nothing."""
    return (None,) if lacking else ()


def _tools(s: Session) -> list[ToolInteraction]:
    return [tool for tool in s.tool_interactions if not tool.handoff]


def _answered(s: Session) -> list[LLMCall]:
    return [call for call in s.llm_calls if not call.unanswered]


def _counted(call: LLMCall) -> bool:
    return None not in (call.input_tokens, call.output_tokens)


def _has_texts(s: Session) -> bool:
    return any(turn.user_input or turn.final_response for turn in s.turns)


def _has_calls(s: Session) -> bool:
    return any(tool.arguments_known or tool.output_known for tool in _tools(s))


# Whether a session has contents of the kind that it lacks in part.
_CONTENTS: dict[str, Callable[[Session], bool]] = {
    **dict.fromkeys(("no_user_input", "no_response"), _has_texts),
    **dict.fromkeys(("no_tool_arguments", "no_tool_result", "removed_arguments"), _has_calls),
}
_CHECKS = (
    _Check(
        "no_conversation_id",
        "no conversation id: one session per trace",
        (),
        lambda s: _if(s.session_id_source == "trace"),
    ),
    _Check(
        "may_continue",
        "it may continue another session: its first request repeats unknown messages",
        (),
        lambda s: _if(s.identity_doubt == "continues"),
    ),
    _Check(
        "id_reused",
        "its id came again more than a day later, with nothing repeated: it may be two conversations",
        (),
        lambda s: _if(s.identity_doubt == "reused"),
    ),
    _Check(
        "no_user_input",
        "turns without the user's message: only spangrade.question_id can name their golden question",
        (),
        lambda s: [turn for turn in s.turns if turn.user_input is None],
    ),
    _Check(
        "no_response",
        "turns without the agent's answer",
        (),
        # A run that broke gives none.
        lambda s: [] if s.errors else [turn for turn in s.turns if turn.final_response is None],
    ),
    _Check(
        "calls_unknown",
        "turns whose calls are not known: {reasons}",
        (*_TOOLS, *_TRAJECTORY, "no_further_calls", *KINDS),
        lambda s: [turn for turn in s.turns if turn.calls_unknown and not turn.driven],
    ),
    _Check(
        "no_agents",
        "no agent is named",
        (*_TRAJECTORY, "agent_routing", "agent_handoffs"),
        lambda s: _if(s.agents is None),
    ),
    _Check(
        "no_tool_arguments",
        "tool calls without their arguments",
        _TOOLS,
        lambda s: [tool for tool in _tools(s) if not tool.arguments_known],
    ),
    _Check(
        "removed_arguments",
        "tool calls with values in their arguments that were removed",
        _TOOLS,
        lambda s: [tool for tool in _tools(s) if tool.arguments_removed],
    ),
    _Check(
        "no_tool_result",
        "tool calls without a recorded result or failure",
        ("tool_success_rate",),
        lambda s: [tool for tool in _tools(s) if tool.ran and tool.ok is None and not tool.output_known],
    ),
    _Check(
        "no_tool_span",
        "tool calls recorded only in messages: their text may be an answer or a failure",
        ("tool_success_rate",),
        lambda s: [tool for tool in _tools(s) if tool.ran and tool.ok is None and tool.output_known],
    ),
    _Check(
        "no_state",
        "no state is recorded",
        ("state_management_fidelity",),
        lambda s: _if(s.state_variables is None),
    ),
    _Check("no_model_calls", "no model call is recorded", OF_CALLS, lambda s: _if(not s.llm_calls)),
    _Check(
        "doubtful_tokens",
        "model calls whose tokens contradict each other, or leave open if the input has the cached ones",
        OF_TOKENS,
        lambda s: [call for call in s.llm_calls if call.doubtful_tokens],
        of_calls=True,
    ),
    _Check(
        "no_tokens",
        "model calls without their tokens",
        OF_TOKENS,
        lambda s: [call for call in _answered(s) if not _counted(call) and not call.doubtful_tokens],
        of_calls=True,
    ),
    _Check(
        "no_cached_tokens",
        "no model call records cached tokens",
        ("cache_efficiency",),
        lambda s: _if(s.usage.cached_input_tokens is None),
        of_calls=True,
    ),
    _Check(
        "no_reasoning_tokens",
        "no model call records reasoning tokens",
        ("thinking_metrics",),
        lambda s: _if(s.usage.reasoning_tokens is None),
        of_calls=True,
    ),
    _Check(
        "unknown_price",
        "model calls without a known cost: no price for {models}",
        ("cost", "max_cost_usd"),
        lambda s: [call for call in _answered(s) if _counted(call) and call.cost_usd is None],
        of_calls=True,
    ),
    _Check(
        "unknown_context_window",
        "model calls without a known context window: {models}",
        ("context_saturation",),
        lambda s: [call for call in _answered(s) if call.context_window is None],
        of_calls=True,
    ),
    _Check(
        "no_grounding",
        "model calls that do not record whether sources grounded the answer",
        ("grounding_utilization",),
        lambda s: [call for call in s.llm_calls if call.grounding_chunks is None],
        of_calls=True,
    ),
    _Check(
        "no_code_executions",
        "model calls that do not record whether code ran in the model's sandbox",
        ("sandbox_usage",),
        lambda s: [call for call in s.llm_calls if call.code_executions is None],
        of_calls=True,
    ),
)
