"""What a recording lacks, which metrics that makes inconclusive, and what would mend it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import nanoarrow as na
import orjson

from spangrade.evaluator.derive import load
from spangrade.evaluator.maintenance import advice
from spangrade.evaluator.metrics import Inconclusive, Metric, load_metrics
from spangrade.evaluator.session import Session
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows
from spangrade.tracer.store.sql import statement

CLOCK_TOLERANCE_NS = (
    10_000_000  # clocks of one network are kept that close; within a process there is no skew
)
_BATCH = 2_000  # sessions

_TRAJECTORY = tuple(
    f"trajectory_{name}"
    for name in ("exact_match", "in_order_match", "any_order_match", "precision", "recall", "accuracy")
)
_TOOLS = tuple(
    f"tool_{name}"
    for name in ("exact_match", "in_order_match", "any_order_match", "precision", "recall", "usage_accuracy")
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a session's recording lacks.

    `count` says how many of what `what` names; `metrics` cannot be measured for it; `mend` is what would
    make the next recording better, None where nothing is known that would.
    """

    code: str
    session_id: str
    what: str
    count: int
    metrics: tuple[str, ...]
    mend: str | None


class _Lack(NamedTuple):
    """A finding in the making: `metrics` may be inconclusive for it, `at` is a span of who ought to tell."""

    code: str
    what: str
    number: int
    metrics: tuple[str, ...] = ()
    at: tuple[str, str | None] | None = None


class _Odd(NamedTuple):
    """A row of `lint_spans.sql`."""

    orphans: int = 0
    without_root: int = 0
    unfinished: int = 0
    skewed: int = 0
    sampled: int = 0


_EXPORT = (
    "export all spans of a trace to one place, wait for them (flush at the end of the process), "
    "and sample whole traces"
)
_MEND = {
    "missing_spans": _EXPORT,
    "orphans": _EXPORT,
    "no_root": "export the caller's spans too; if it is no part of the agent, nothing is wrong",
    "unfinished": "end every span, and shut the tracer provider down before the process ends",
    "clock_skew": "synchronise the clocks of the machines that record (NTP)",
    "sampled": "sample all traces of the conversations that are graded",
    "no_state": "write it: spangrade.tracer's set_state(), or a spangrade.state event on any span",
    "unknown_price": "record gen_ai.response.model as the provider names it, or update genai-prices",
    "no_tokens": "record gen_ai.usage.input_tokens and gen_ai.usage.output_tokens; of a streamed answer "
    "a model client may have to be asked for its usage",
    "no_tool_span": "record an execute_tool span around each call of a tool",
    "no_model_calls": "instrument the model client, or switch on the framework's own spans of model calls",
    "no_duration": "record the end of the span that stands for a turn",
    "no_agents": "record gen_ai.agent.name on a span around each agent's run",
}


def lint(store: Store, session_id: str | None = None) -> Iterator[Finding]:
    """Yield what the recordings of the derived sessions (or of one) lack, session by session."""
    sessions = load(store, session_id)
    metrics, odd = load_metrics(), _odd(store, session_id)
    while batch := list(islice(sessions, _BATCH)):
        lacks = {
            s.session_id: [*_lacks(s), *_oddities(odd.get(s.session_id, _Odd()), metrics, s)] for s in batch
        }
        spans = _spans(store, {lack.at for found in lacks.values() for lack in found if lack.at})
        for session in batch:
            unmeasured = _unmeasured(session, metrics)
            for lack in lacks[session.session_id]:
                names = tuple(name for name in lack.metrics if name in unmeasured)
                yield Finding(
                    lack.code, session.session_id, lack.what, lack.number, names, _mend(lack, spans)
                )


def _unmeasured(session: Session, metrics: Mapping[str, Metric]) -> set[str]:
    """Return the metrics that may be inconclusive: those that are, and those that hang on a reference."""
    return {
        name
        for name, metric in metrics.items()
        if session.missing_spans
        or session.sampled
        or metric.needs is not None
        or (name in _REPORTED and isinstance(metric(session), Inconclusive))
    }


def _lacks(s: Session) -> Iterator[_Lack]:
    calls, tools = s.llm_calls, [tool for tool in s.tool_interactions if not tool.handoff]
    first = next(((step.trace_id, step.span_id) for step in s.trajectory), None)
    model = (calls[0].trace_id, calls[0].span_id) if calls else first
    if s.session_id_source == "trace":
        yield _Lack("no_conversation_id", "no conversation id: one session a trace", 1, (), first or model)
    if unheard := [turn for turn in s.turns if turn.user_input is None]:
        what = "turns without the user's message: golden questions are met by spangrade.question_id alone"
        yield _Lack("no_user_input", what, len(unheard), (), model)
    unsaid = [turn for turn in s.turns if turn.final_response is None]
    if unsaid and not s.errors:  # a run that broke gave none
        yield _Lack("no_response", "turns without the agent's answer", len(unsaid), (), model)
    if s.agents is None:
        metrics = (*_TRAJECTORY, "agent_routing", "agent_handoffs")
        yield _Lack("no_agents", "no agent is named", 1, metrics)
    if bare := [tool for tool in tools if not tool.arguments_known]:
        at = (bare[0].trace_id, bare[0].span_id)
        yield _Lack("no_tool_arguments", "tool calls without their arguments", len(bare), _TOOLS, at)
    if silent := [tool for tool in tools if tool.ok is None and not tool.output_known]:
        at = (silent[0].trace_id, silent[0].span_id)
        what = "tool calls of which neither a result nor a failure is recorded"
        yield _Lack("no_tool_result", what, len(silent), ("tool_success_rate",), at)
    if unsure := [tool for tool in tools if tool.ok is None and tool.output_known]:
        what = "tool calls that messages alone tell of: a text may be an answer or a failure"
        yield _Lack("no_tool_span", what, len(unsure), ("tool_success_rate",))
    if s.state_variables is None:
        yield _Lack("no_state", "no state is recorded", 1, ("state_management_fidelity",))
    if not calls:
        yield _Lack("no_model_calls", "no model call is recorded", 1, _OF_CALLS)
        return
    counted = [call for call in calls if call.input_tokens is not None and call.output_tokens is not None]
    if untold := len(calls) - len(counted):
        yield _Lack("no_tokens", "model calls without their tokens", untold, _OF_TOKENS)
    if s.usage.cached_input_tokens is None:
        yield _Lack("no_cached_tokens", "no model call tells cached tokens", 1, ("cache_efficiency",))
    if s.usage.reasoning_tokens is None:
        yield _Lack("no_reasoning_tokens", "no model call tells reasoning tokens", 1, ("thinking_metrics",))
    if unpriced := [call for call in counted if call.cost_usd is None]:
        models = ", ".join(sorted({call.model or "a model without a name" for call in unpriced}))
        metrics = ("cost", "context_saturation")
        yield _Lack("unknown_price", f"model calls without a known price: {models}", len(unpriced), metrics)
    if ungrounded := [call for call in calls if call.grounding_chunks is None]:
        what = "model calls that do not tell whether sources grounded the answer"
        yield _Lack("no_grounding", what, len(ungrounded), ("grounding_utilization",))
    if boxed := [call for call in calls if call.code_executions is None]:
        what = "model calls that do not tell whether code ran in the model's sandbox"
        yield _Lack("no_code_executions", what, len(boxed), ("sandbox_usage",))


def _oddities(odd: _Odd, metrics: Iterable[str], s: Session) -> Iterator[_Lack]:
    untimed = ("latency_metrics",)
    if s.missing_spans:
        what = "spans are missing beneath an agent's run"
        yield _Lack("missing_spans", what, s.missing_spans, tuple(metrics))
    if odd.orphans:
        yield _Lack("orphans", "spans whose parent is not recorded", odd.orphans)
    if odd.without_root:
        yield _Lack("no_root", "traces without a root: a caller's span is not recorded", odd.without_root)
    if odd.unfinished:
        yield _Lack("unfinished", "spans that end before they start, or never", odd.unfinished, untimed)
    elif s.latency.total_s is None:
        yield _Lack("no_duration", "turns whose length is not recorded", 1, untimed)
    if odd.skewed:
        yield _Lack("clock_skew", "spans that start before their parent or end after it", odd.skewed)
    if odd.sampled:
        what = "traces sampled with a probability: others of the conversation may have been dropped"
        yield _Lack("sampled", what, odd.sampled, tuple(metrics))


_OF_TOKENS = ("token_usage", "cost", "output_density", "context_saturation")
_OF_CALLS = (
    *_OF_TOKENS,
    "cache_efficiency",
    "thinking_metrics",
    "grounding_utilization",
    "sandbox_usage",
)
_REPORTED = frozenset({*_OF_CALLS, "agent_handoffs", "tool_success_rate", "latency_metrics"})
_CONTENT = frozenset({"no_user_input", "no_response", "no_tool_arguments", "no_tool_result"})


def _mend(lack: _Lack, spans: Mapping[tuple[str, str | None], Span]) -> str | None:
    span = spans.get(lack.at) if lack.at else None
    if lack.code in _CONTENT:
        return advice.content(span)
    if lack.code == "no_conversation_id":
        return advice.conversation(span)
    return _MEND.get(lack.code)


def _odd(store: Store, session_id: str | None) -> Mapping[str, _Odd]:
    """Return the sessions (or the one) whose spans are odd in some way."""
    rows = store.query(
        statement("lint_spans", "spangrade.evaluator.maintenance"),
        {"session": session_id, "tolerance_ns": CLOCK_TOLERANCE_NS},
    )
    return {found: _Odd(*counts) for found, *counts in rows}


def _spans(store: Store, nodes: Iterable[tuple[str, str | None]]) -> dict[tuple[str, str | None], Span]:
    """Return spans by (trace id, span id), as far as it takes to tell who wrote them."""
    rows = sorted((trace_id, span_id) for trace_id, span_id in nodes if span_id)
    wanted = arrow_rows(rows, {"trace_id": na.string(), "span_id": na.string()})
    ((first, last),) = store.query(
        "SELECT min(first_seq), max(last_seq) FROM derived.traces SEMI JOIN wanted USING (trace_id)",
        wanted=wanted,
    )
    found = store.query(
        "SELECT trace_id, span_id, name, scope_name, attributes FROM spans "
        "SEMI JOIN wanted USING (trace_id, span_id) WHERE seq BETWEEN $first AND $last",
        {"first": first, "last": last},
        wanted=wanted,
    )
    return {
        (trace_id, span_id): Span(
            trace_id,
            span_id,
            None,
            name,
            "INTERNAL",
            0,
            0,
            attributes=orjson.loads(attributes),
            scope_name=scope,
        )
        for trace_id, span_id, name, scope, attributes in found
    }
