"""What a recording lacks, which metrics are inconclusive because of it, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import nanoarrow as na
import orjson

from spangrade.evaluator.derive import load, not_understood
from spangrade.evaluator.maintenance import advice
from spangrade.evaluator.metrics import Inconclusive, Metric, load_metrics
from spangrade.evaluator.session import Session, UnreadableSpan
from spangrade.evaluator.watch.deliveries import given_up
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows
from spangrade.tracer.store.spool import rejected_files
from spangrade.tracer.store.sql import statement

# Clocks of one network are kept that close; within a process there is no skew.
CLOCK_TOLERANCE_NS = 10_000_000
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
    """Something that a session's recording lacks, or that is wrong with it.

    `what` describes it, `count` is how many there are. `metrics` are the metrics that may be inconclusive
    because of it. `advice` is how to fix it, None if no way is known. `session_id` is None for a golden
    question that no session answers, and for files of the spool.
    """

    code: str
    session_id: str | None
    what: str
    count: int
    metrics: tuple[str, ...]
    advice: str | None


class _Gap(NamedTuple):
    """What a finding is made of; `at` is the (trace id, span id) of a span of the instrumentation."""

    code: str
    what: str
    number: int
    metrics: tuple[str, ...] = ()
    at: tuple[str, str | None] | None = None


class _SpanCounts(NamedTuple):
    """A row of `lint_spans.sql`: how many spans or traces of a session have each fault."""

    orphans: int = 0
    without_root: int = 0
    unfinished: int = 0
    skewed: int = 0
    sampled: int = 0
    with_losses: int = 0


_EXPORT = (
    "export all spans of a trace to one place, wait for them (flush at the end of the process), "
    "and sample whole traces"
)
_ADVICE = {
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
    "sampled": "sample whole conversations, by configure(sample=RATIO), instead of traces",
    "no_state": "record it: spangrade.set_state(), or a spangrade.state event on any span",
    "unknown_price": "record gen_ai.response.model as the provider names it, or update genai-prices",
    "no_tokens": "record gen_ai.usage.input_tokens and gen_ai.usage.output_tokens; for streamed answers "
    "some model clients report usage only on request",
    "no_tool_span": "record an execute_tool span around each tool call",
    "no_model_calls": "instrument the model client, or switch on the framework's own spans of model calls",
    "no_duration": "record the end of the span that stands for a turn",
    "no_agents": "record gen_ai.agent.name on a span around each agent's run",
}


def lint(store: Store, session_id: str | None = None) -> Iterator[Finding]:
    """Yield what the recordings of all derived sessions, or of one, lack, session by session."""
    sessions = load(store, session_id)
    metrics, span_counts = load_metrics(), _span_counts(store, session_id)
    while batch := list(islice(sessions, _BATCH)):
        gaps = {
            s.session_id: [
                *_reading_gaps(s, metrics),
                *(() if s.assembly_error else _session_gaps(s)),
                *_span_gaps(span_counts.get(s.session_id, _SpanCounts()), metrics, s),
            ]
            for s in batch
        }
        spans = _spans(store, {gap.at for of_session in gaps.values() for gap in of_session if gap.at})
        for session in batch:
            unmeasured = _unmeasured(session, metrics)
            for gap in gaps[session.session_id]:
                names = tuple(name for name in gap.metrics if name in unmeasured)
                yield Finding(gap.code, session.session_id, gap.what, gap.number, names, _advice(gap, spans))
    for of_session, scope, spans_of_scope in not_understood.by_session(store, session_id):
        where = f"of scope `{scope}`" if scope else "without a scope"
        what = f"spans {where} that no dialect understood"
        help_ = advice.not_understood(scope)
        yield Finding("not_understood", of_session, what, spans_of_scope, tuple(metrics), help_)
    if session_id is None and (rejected := rejected_files(store.path)):
        what = f"files in {rejected[0].parent.name} that could not be loaded (first: {rejected[0].name})"
        yield Finding("not_loaded", None, what, len(rejected), (), _ADVICE["not_loaded"])
    for kind, number, error in given_up(store) if session_id is None else ():
        what = f"messages of `spangrade watch` ({kind}) that were given up (last: {error})"
        yield Finding("not_delivered", None, what, number, (), _ADVICE["not_delivered"])


def _unmeasured(session: Session, metrics: Mapping[str, Metric]) -> set[str]:
    """Return the metrics that may be inconclusive: those that are, and those that need a reference."""
    return {
        name
        for name, metric in metrics.items()
        if session.missing_spans
        or session.sampled
        or session.unreadable_spans
        or session.not_understood
        or session.assembly_error
        or metric.needs is not None
        or (name in _REPORTED and isinstance(metric(session), Inconclusive))
    }


def _reading_gaps(s: Session, metrics: Iterable[str]) -> Iterator[_Gap]:
    if s.assembly_error:
        what = f"the session could not be assembled: {s.assembly_error}"
        yield _Gap("not_assembled", what, 1, tuple(metrics))
    unreadable: dict[tuple[str, str], list[UnreadableSpan]] = {}
    for span in s.unreadable_spans:
        unreadable.setdefault((span.dialect, span.error), []).append(span)
    for (dialect, error), spans in unreadable.items():
        where = f"span {spans[0].span_id} of trace {spans[0].trace_id}"
        what = f"spans that the dialect {dialect} could not read: {error} (first: {where})"
        yield _Gap("unreadable_spans", what, len(spans), tuple(metrics))


def _session_gaps(s: Session) -> Iterator[_Gap]:
    calls, tools = s.llm_calls, [tool for tool in s.tool_interactions if not tool.handoff]
    first = next(((step.trace_id, step.span_id) for step in s.trajectory), None)
    model = (calls[0].trace_id, calls[0].span_id) if calls else first
    if s.session_id_source == "trace":
        yield _Gap("no_conversation_id", "no conversation id: one session per trace", 1, (), first or model)
    if no_input := [turn for turn in s.turns if turn.user_input is None]:
        what = "turns without the user's message: only spangrade.question_id can name their golden question"
        yield _Gap("no_user_input", what, len(no_input), (), model)
    no_response = [turn for turn in s.turns if turn.final_response is None]
    if no_response and not s.errors:  # a run that broke gives none
        yield _Gap("no_response", "turns without the agent's answer", len(no_response), (), model)
    if s.agents is None:
        metrics = (*_TRAJECTORY, "agent_routing", "agent_handoffs")
        yield _Gap("no_agents", "no agent is named", 1, metrics)
    if no_arguments := [tool for tool in tools if not tool.arguments_known]:
        at = (no_arguments[0].trace_id, no_arguments[0].span_id)
        yield _Gap("no_tool_arguments", "tool calls without their arguments", len(no_arguments), _TOOLS, at)
    if no_result := [tool for tool in tools if tool.ok is None and not tool.output_known]:
        at = (no_result[0].trace_id, no_result[0].span_id)
        what = "tool calls without a recorded result or failure"
        yield _Gap("no_tool_result", what, len(no_result), ("tool_success_rate",), at)
    if from_messages := [tool for tool in tools if tool.ok is None and tool.output_known]:
        what = "tool calls recorded only in messages: their text may be an answer or a failure"
        yield _Gap("no_tool_span", what, len(from_messages), ("tool_success_rate",))
    if s.state_variables is None:
        yield _Gap("no_state", "no state is recorded", 1, ("state_management_fidelity",))
    if not calls:
        yield _Gap("no_model_calls", "no model call is recorded", 1, _OF_CALLS)
        return
    answered = [call for call in calls if not call.unanswered]
    counted = [call for call in answered if None not in (call.input_tokens, call.output_tokens)]
    if uncounted := len(answered) - len(counted):
        yield _Gap("no_tokens", "model calls without their tokens", uncounted, _OF_TOKENS)
    if s.usage.cached_input_tokens is None:
        yield _Gap("no_cached_tokens", "no model call records cached tokens", 1, ("cache_efficiency",))
    if s.usage.reasoning_tokens is None:
        yield _Gap("no_reasoning_tokens", "no model call records reasoning tokens", 1, ("thinking_metrics",))
    if unpriced := [call for call in counted if call.cost_usd is None]:
        models = ", ".join(sorted({call.model or "a model without a name" for call in unpriced}))
        metrics = ("cost", "context_saturation")
        yield _Gap("unknown_price", f"model calls without a known price: {models}", len(unpriced), metrics)
    if no_grounding := [call for call in calls if call.grounding_chunks is None]:
        what = "model calls that do not record whether sources grounded the answer"
        yield _Gap("no_grounding", what, len(no_grounding), ("grounding_utilization",))
    if no_executions := [call for call in calls if call.code_executions is None]:
        what = "model calls that do not record whether code ran in the model's sandbox"
        yield _Gap("no_code_executions", what, len(no_executions), ("sandbox_usage",))


def _span_gaps(counts: _SpanCounts, metrics: Iterable[str], s: Session) -> Iterator[_Gap]:
    untimed = ("latency_metrics",)
    if s.missing_spans:
        what = "spans are missing beneath an agent's run"
        yield _Gap("missing_spans", what, s.missing_spans, tuple(metrics))
    if counts.orphans:
        yield _Gap("orphans", "spans whose parent is not recorded", counts.orphans)
    if counts.without_root:
        yield _Gap("no_root", "traces without a root: a caller's span is not recorded", counts.without_root)
    if counts.unfinished:
        yield _Gap("unfinished", "spans that end before they start, or never", counts.unfinished, untimed)
    elif s.latency.total_s is None:
        yield _Gap("no_duration", "turns without a recorded duration", 1, untimed)
    if counts.skewed:
        yield _Gap(
            "clock_skew",
            "spans that start before their parent, or answer a request after its end",
            counts.skewed,
        )
    if counts.sampled and s.sampled:
        what = "traces sampled one by one: others of the conversation may have been dropped"
        yield _Gap("sampled", what, counts.sampled, tuple(metrics))
    if counts.with_losses:
        what = "spans with something that the tracer could not record"
        yield _Gap("not_recorded", what, counts.with_losses, tuple(metrics))


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


def _advice(gap: _Gap, spans: Mapping[tuple[str, str | None], Span]) -> str | None:
    span = spans.get(gap.at) if gap.at else None
    if gap.code in _CONTENT:
        return advice.content(span)
    if gap.code == "no_conversation_id":
        return advice.conversation(span)
    return _ADVICE.get(gap.code)


def _span_counts(store: Store, session_id: str | None) -> Mapping[str, _SpanCounts]:
    """Return the faults among the spans of all sessions, or of one, by session."""
    ((first, last),) = store.query(
        "SELECT min(first_seq), max(last_seq) FROM derived.traces "
        "WHERE $session IS NULL OR session_id = $session",
        {"session": session_id},
    )
    rows = store.query(
        statement("lint_spans", "spangrade.evaluator.maintenance"),
        {"session": session_id, "tolerance_ns": CLOCK_TOLERANCE_NS, "first": first, "last": last},
    )
    return {session_id: _SpanCounts(*counts) for session_id, *counts in rows}


def _spans(store: Store, nodes: Iterable[tuple[str, str | None]]) -> dict[tuple[str, str | None], Span]:
    """Return spans by (trace id, span id), with the columns that identify their instrumentation."""
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
