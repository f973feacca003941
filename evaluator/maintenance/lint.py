"""Gaps in recordings, the metrics that they make inconclusive, and how to fix them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, NamedTuple

from spangrade.converters.spans.registry import Lack, setting
from spangrade.converters.spans.session_attributes import candidate_names, placeholder_in
from spangrade.converters.spans.values import mask_in
from spangrade.evaluator.derive import not_understood
from spangrade.evaluator.derive.not_understood import ScopeSpans
from spangrade.evaluator.derive.session_rows import SessionRows, load_rows
from spangrade.evaluator.derive.sync.recorded import Place, spans_at
from spangrade.evaluator.derive.sync.workers import InOrder
from spangrade.evaluator.maintenance.gaps import OF_CALLS, Gap, session_gaps
from spangrade.evaluator.metrics import Inconclusive, Metric, load_metrics
from spangrade.evaluator.session import Session, UnreadableSpan
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.spool import rejected_files
from spangrade.tracer.store.sql import statement

# Clocks of one network are kept that close; within a process there is no skew.
CLOCK_TOLERANCE_NS = 10_000_000
_SLICE = 500  # sessions
# What most recordings lack without harm: listed only where a metric that was asked for needs it.
_RARE = frozenset(
    {"no_state", "no_cached_tokens", "no_reasoning_tokens", "no_grounding", "no_code_executions"}
)
_SPANS_AT_ONCE = 50_000
_MOST_NAMES = 12  # attributes of spans that were not understood
_SQL = "spangrade.evaluator.maintenance"
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


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a session's recording lacks, or that is wrong with it.

    `what` describes it, `count` is how many there are. `metrics` are the metrics that may be inconclusive
    because of it. `advice` is how to fix it, None if no way is known. `session_id` is None for a golden
    question that no session answers, and for files of the spool. `example` is a span of what was found.
    """

    code: str
    session_id: str | None
    what: str
    count: int
    metrics: tuple[str, ...]
    advice: str | None
    example: str | None = None


def matters(finding: Finding, asked: Collection[str] = ()) -> bool:
    """Return whether a finding is worth a reader's time, given the metrics that were asked for."""
    return finding.code not in _RARE or not set(asked).isdisjoint(finding.metrics)


class _SpanCounts(NamedTuple):
    """A row of `lint_spans.sql`: how many spans or traces of a session have each fault."""

    orphans: int = 0
    without_root: int = 0
    unfinished: int = 0
    skewed: int = 0
    sampled: int = 0
    with_losses: int = 0


class _SessionGap(NamedTuple):
    """A gap in a session's recording."""

    session_id: str
    gap: Gap


def lint(store: Store, session_id: str | None = None, in_order: InOrder = map) -> Iterator[Finding]:
    """Yield what the recordings of all derived sessions, or of one, lack, session by session.

    `in_order` may have processes that look at slices of the sessions.
    """
    only = None if session_id is None else [session_id]
    span_counts = _span_counts(store, only)
    slices = (part for rows in load_rows(store, session_id) for part in rows.slices(_SLICE))
    for gaps in in_order(_slice_gaps, ((part, _of(part, span_counts)) for part in slices)):
        yield from _advised(store, gaps)
    metrics = load_metrics()
    unread = not_understood.by_session(store, only)
    yield from (_unread("not_understood", "that no dialect understood", one, metrics) for one in unread)
    if session_id is None and not unread:
        for one in not_understood.without_session(store):
            yield _unread("no_session", "in which no session was found", one, metrics)
    if session_id is None and (rejected := rejected_files(store.path)):
        what = f"files in {rejected[0].parent.name} that could not be loaded (first: {rejected[0].name})"
        yield Finding("not_loaded", None, what, len(rejected), (), advice("not_loaded"))
    for kind, number, error in _given_up(store) if session_id is None else ():
        what = f"messages of `spangrade serve --only grade` ({kind}) that were given up (last: {error})"
        yield Finding("not_delivered", None, what, number, (), advice("not_delivered"))


def _given_up(store: Store) -> list[tuple[str, int, str]]:
    """Return the kinds of messages that were given up, how many they are and the last error of one."""
    if not store.query("SELECT 1 FROM duckdb_tables() WHERE table_name = 'deliveries'"):
        return []
    return store.query(
        "SELECT kind, count(*), arg_max(last_error, rowid) FROM deliveries WHERE next_ns IS NULL "
        "GROUP BY kind ORDER BY kind"
    )


def findings_of(store: Store, sessions: Sequence[Session]) -> Mapping[str, Sequence[Finding]]:
    """Return what the recordings of some sessions lack, by session, but for what `matters` to few."""
    metrics, ids = load_metrics(), [session.session_id for session in sessions]
    found: dict[str, list[Finding]] = {session_id: [] for session_id in ids}
    for finding in _advised(store, _gaps(sessions, _span_counts(store, ids))):
        if matters(finding):
            found[finding.session_id or ""].append(finding)
    for one in not_understood.by_session(store, ids):
        unread = _unread("not_understood", "that no dialect understood", one, metrics)
        found[one.session_id or ""].append(unread)
    return found


def _of(rows: SessionRows, span_counts: Mapping[str, _SpanCounts]) -> dict[str, _SpanCounts]:
    ids = (row[0] for row in rows.sessions)
    return {session_id: span_counts[session_id] for session_id in ids if session_id in span_counts}


def _slice_gaps(job: tuple[SessionRows, Mapping[str, _SpanCounts]]) -> list[_SessionGap]:
    """Return the gaps of a slice's sessions, in any process."""
    rows, span_counts = job
    return _gaps(rows.decoded(), span_counts)


def _gaps(sessions: Iterable[Session], span_counts: Mapping[str, _SpanCounts]) -> list[_SessionGap]:
    """Return what sessions lack, with those metrics of each gap that may be inconclusive for the session."""
    metrics = load_metrics()
    found: list[_SessionGap] = []
    equal: dict[Any, Any] = {}  # many sessions lack the same: one text and one tuple are enough for them
    for s in sessions:
        gaps = [
            *_reading_gaps(s, metrics),
            *(() if s.assembly_error else session_gaps(s)),
            *_span_gaps(span_counts.get(s.session_id, _SpanCounts()), metrics, s),
        ]
        unmeasured = _unmeasured(s, metrics) if gaps else ()
        for gap in gaps:
            names = tuple(name for name in gap.metrics if name in unmeasured)
            what, names = equal.setdefault(gap.what, gap.what), equal.setdefault(names, names)
            found.append(_SessionGap(s.session_id, gap._replace(what=what, metrics=names)))
    return found


def _advised(store: Store, gaps: Sequence[_SessionGap]) -> Iterator[Finding]:
    """Yield gaps as findings, each with the advice of the stack that recorded the session."""
    spans = spans_at(store, {gap.at for _, gap in gaps if gap.at and gap.code in LACKS})
    equal: dict[str | None, str | None] = {}
    for session_id, gap in gaps:
        help_ = advice(gap.code, spans.get(gap.at) if gap.at else None, partly=gap.partly)
        help_, example = equal.setdefault(help_, help_), _example(gap.at)
        yield Finding(gap.code, session_id, gap.what, gap.number, gap.metrics, help_, example)


def _example(place: Place | None) -> str | None:
    return None if place is None or place[1] is None else f"span {place[1]} of trace {place[0]}"


def _unread(code: str, fate: str, spans: ScopeSpans, metrics: Iterable[str]) -> Finding:
    where = f"of scope `{spans.scope}`" if spans.scope else "without a scope"
    names = ", ".join(spans.attributes[:_MOST_NAMES]) or "none"
    more = "" if len(spans.attributes) <= _MOST_NAMES else f" and {len(spans.attributes) - _MOST_NAMES} more"
    what = f"spans {where} {fate} (attributes: {names}{more})"
    help_ = advice_not_understood(spans.scope)
    return Finding(code, spans.session_id, what, spans.spans, tuple(metrics), help_, _example(spans.example))


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


def _reading_gaps(s: Session, metrics: Iterable[str]) -> Iterator[Gap]:
    if s.assembly_error:
        what = f"the session could not be assembled: {s.assembly_error}"
        yield Gap("not_assembled", what, 1, tuple(metrics))
    unreadable: dict[tuple[str, str], list[UnreadableSpan]] = {}
    for span in s.unreadable_spans:
        unreadable.setdefault((span.dialect, span.error), []).append(span)
    for (dialect, error), spans in unreadable.items():
        what = f"spans that the dialect {dialect} could not read: {error}"
        at = (spans[0].trace_id, spans[0].span_id)
        yield Gap("unreadable_spans", what, len(spans), tuple(metrics), at)


def _span_gaps(counts: _SpanCounts, metrics: Iterable[str], s: Session) -> Iterator[Gap]:
    untimed = ("latency_metrics",)
    if s.missing_spans:
        what = "spans are missing beneath an agent's run"
        yield Gap("missing_spans", what, s.missing_spans, tuple(metrics))
    if counts.orphans:
        yield Gap("orphans", "spans whose parent is not recorded", counts.orphans)
    if counts.without_root:
        yield Gap("no_root", "traces without a root: a caller's span is not recorded", counts.without_root)
    if counts.unfinished:
        yield Gap("unfinished", "spans that end before they start, or never", counts.unfinished, untimed)
    elif s.latency.total_s is None:
        yield Gap("no_duration", "turns without a recorded duration", 1, untimed)
    if counts.skewed:
        yield Gap(
            "clock_skew",
            "spans that start before their parent, or answer a request after its end",
            counts.skewed,
        )
    if counts.sampled and s.sampled:
        what = "traces sampled one by one: others of the conversation may have been dropped"
        yield Gap("sampled", what, counts.sampled, tuple(metrics))
    if counts.with_losses:
        what = "spans with something that the tracer could not record"
        yield Gap("not_recorded", what, counts.with_losses, tuple(metrics))


_REPORTED = frozenset({*OF_CALLS, "agent_handoffs", "tool_success_rate", "latency_metrics"})


def _span_counts(store: Store, session_ids: Sequence[str] | None) -> Mapping[str, _SpanCounts]:
    """Return the faults among the spans of all sessions, or of some, by session.

    The traces are looked at in the order of arrival, some spans at a time: DuckDB takes half a kilobyte for
    each.
    """
    counts: dict[str, _SpanCounts] = {}
    parameters = {"sessions": session_ids, "tolerance_ns": CLOCK_TOLERANCE_NS}
    windows = store.query(statement("lint_windows", _SQL), {"sessions": session_ids, "most": _SPANS_AT_ONCE})
    for first_trace, last_trace, last in windows:
        bounds = {"first_trace": first_trace, "last_trace": last_trace, "last": last}
        for session_id, *row in store.query(statement("lint_spans", _SQL), parameters | bounds):
            before = counts.get(session_id, _SpanCounts())
            counts[session_id] = _SpanCounts(*map(add, before, row))
    return counts


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


def advice_not_understood(scope: str) -> str:
    """Return advice on spans of a scope that no dialect understood."""
    ours = "if an agent recorded them: update spangrade, or write a dialect for them (docs/reading.md)"
    return f"{ours}; if not: spangrade import --ignore-scope {scope}" if scope else ours
