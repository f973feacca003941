"""Head sampling: whole conversations by their ids, and the thresholds of OpenTelemetry's own ratio samplers.

A sampler that decides per trace drops turns out of conversations. What the recorded spans then say about
the sampling is in their tracestate, which OTLP carries and callees in other processes continue:

- `spangrade=conversation:RATIO`: the conversation is recorded whole; `configure(sample=RATIO)` chose it.
- `ot=th:THRESHOLD`: traces are dropped with a probability (the OpenTelemetry specification of tracestate).
- `spangrade=partial`: a sampler dropped other spans of this conversation, with an unknown probability.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    StaticSampler,
    TraceIdRatioBased,
)
from opentelemetry.trace import Link, SpanContext, SpanKind, get_current_span
from opentelemetry.trace.span import TraceState
from opentelemetry.util.types import Attributes

from spangrade.tracer import semconv
from spangrade.tracer._operation import current_session

_log = logging.getLogger("spangrade")
_OURS = "spangrade"
_PARTIAL = "partial"
_RANDOM_BITS = 56
_NEVER = 1 << _RANDOM_BITS  # a threshold that drops everything
_MAX_REMEMBERED = 10_000  # conversations with dropped spans


class ConversationSampler(Sampler):
    """Records a share of the conversations, each whole: a hash of the conversation's id decides.

    The id is that of the `session()` in which a span starts, else `gen_ai.conversation.id` among the
    attributes of a span without a local parent. Spans beneath follow their parent, also in other processes.
    A trace without an id is recorded by its trace id, and its tracestate says so by `ot=th:`: it may be a
    part of a conversation.
    """

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio
        self._threshold = _threshold(ratio)
        self._state_of_roots = _with_threshold(TraceState(), self._threshold)

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,  # noqa: ARG002
        kind: SpanKind | None = None,  # noqa: ARG002
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,  # noqa: ARG002
        trace_state: TraceState | None = None,  # noqa: ARG002
    ) -> SamplingResult:
        """Decide whether a span is recorded."""
        parent = get_current_span(parent_context).get_span_context()
        state = parent.trace_state
        conversation_id = _conversation_id(parent_context, parent, attributes)
        if _OURS in state or (parent.is_valid and conversation_id is None):
            sampled = parent.trace_flags.sampled
        elif conversation_id is not None:
            sampled = _hash(conversation_id) >= self._threshold
            state = _with_threshold(state, 0).update(_OURS, f"conversation:{self.ratio:g}")
        else:
            sampled = trace_id % _NEVER >= self._threshold
            state = _with_threshold(state, self._threshold) if state else self._state_of_roots
        if not sampled:
            return SamplingResult(Decision.DROP, None, state)
        return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes, state)

    def get_description(self) -> str:
        """Return the sampler's name and ratio."""
        return f"ConversationSampler{{{self.ratio:g}}}"


class DisclosingSampler(Sampler):
    """Decides as another sampler does, and writes in the tracestate which share that sampler drops."""

    def __init__(self, inner: Sampler) -> None:
        self.inner = inner
        # Without a lock: each step on it is atomic, and a fork could inherit a lock that is held.
        self._partial: OrderedDict[str, None] = OrderedDict()

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Decide whether a span is recorded."""
        result = self.inner.should_sample(
            parent_context, trace_id, name, kind, attributes, links, trace_state
        )
        parent = get_current_span(parent_context).get_span_context()
        if result.decision is not Decision.RECORD_AND_SAMPLE:
            if (conversation_id := _conversation_id(parent_context, parent, attributes)) is not None:
                self._remember(conversation_id)
            return result
        threshold = _ratio_threshold(self.inner, parent)
        if not (threshold or self._partial or "ot" in parent.trace_state):  # the usual case, in 2 µs
            return result
        state = result.trace_state or TraceState()
        threshold = max(threshold, _threshold_in(parent.trace_state))
        if threshold > _threshold_in(state):
            state = _with_threshold(state, threshold)
        if _conversation_id(parent_context, parent, attributes) in self._partial:
            state = state.update(_OURS, _PARTIAL)
        return SamplingResult(result.decision, result.attributes, state)

    def get_description(self) -> str:
        """Return the description of the sampler that decides."""
        return self.inner.get_description()

    def _remember(self, conversation_id: str) -> None:
        self._partial[conversation_id] = None
        if len(self._partial) > _MAX_REMEMBERED:
            self._partial.popitem(last=False)


def set_sampling(provider: TracerProvider, sample: float | None) -> None:
    """Let a provider record a share of the conversations, or disclose the share that its sampler drops.

    A sampler that drops anything by itself stays in force.
    """
    sampler = provider.sampler
    disclosed = isinstance(sampler, DisclosingSampler)
    if isinstance(sampler, DisclosingSampler):
        sampler = sampler.inner
    if isinstance(sampler, ConversationSampler):
        if sample not in (None, sampler.ratio):
            _log.warning("sample=%g is not used: the provider samples at %g already", sample, sampler.ratio)
        return
    if sample is not None and _records_all(sampler):
        _use(provider, ConversationSampler(sample))
        return
    if sample is not None:
        _log.warning(
            "sample=%g is not used: the application's tracer provider keeps its sampler %s",
            sample,
            sampler.get_description(),
        )
    if disclosed:
        return
    _use(provider, DisclosingSampler(sampler))
    if not _records_all(sampler) and sampler.get_description() != ALWAYS_OFF.get_description():
        _log.warning(
            "the sampler %s drops traces, so that conversations lack turns and cannot pass: "
            "configure(sample=…) samples whole conversations",
            (sampler._root if isinstance(sampler, ParentBased) else sampler).get_description(),
        )


def _use(provider: TracerProvider, sampler: Sampler) -> None:
    provider.sampler = sampler
    for tracer in getattr(provider, "_tracers", {}).values():  # older SDKs keep no list of them
        tracer.sampler = sampler


def _records_all(sampler: Sampler) -> bool:
    """Return whether a sampler drops only traces that a caller has dropped."""
    if isinstance(sampler, ParentBased):
        return _records_all(sampler._root)
    if isinstance(sampler, TraceIdRatioBased):
        return sampler.rate == 1
    return isinstance(sampler, StaticSampler) and sampler.get_description() == ALWAYS_ON.get_description()


def _conversation_id(context: Context | None, parent: SpanContext, attributes: Attributes) -> str | None:
    """Return the id by which a span's conversation is known when it starts."""
    if session := current_session(context):
        return session.conversation_id
    given = (attributes or {}).get(semconv.CONVERSATION_ID)
    return given if isinstance(given, str) and (parent.is_remote or not parent.is_valid) else None


def _hash(conversation_id: str) -> int:
    """Return 56 bits that are the same in every process."""
    return int.from_bytes(hashlib.sha256(conversation_id.encode("utf-8", "replace")).digest()[:7])


def _threshold(ratio: float) -> int:
    return _NEVER - round(ratio * _NEVER)


def _ratio_threshold(sampler: Sampler, parent: SpanContext) -> int:
    """Return the threshold of the ratio sampler that decides below this parent; 0 without one."""
    if isinstance(sampler, TraceIdRatioBased):
        return _threshold(sampler.rate)
    if isinstance(sampler, ParentBased):
        return _ratio_threshold(_delegate(sampler, parent), parent)
    if type(sampler).__name__ == "AlwaysRecordSampler":  # of newer SDKs
        return _ratio_threshold(sampler._root, parent)  # type: ignore[attr-defined]
    return 0


def _delegate(sampler: ParentBased, parent: SpanContext) -> Sampler:
    if not parent.is_valid:
        return sampler._root
    if parent.is_remote:
        return (
            sampler._remote_parent_sampled
            if parent.trace_flags.sampled
            else sampler._remote_parent_not_sampled
        )
    return sampler._local_parent_sampled if parent.trace_flags.sampled else sampler._local_parent_not_sampled


def _threshold_in(state: TraceState) -> int:
    """Return the threshold in a tracestate, 0 without one."""
    for field in (state.get("ot") or "").split(";"):
        if field.startswith("th:"):
            digits = field.removeprefix("th:")
            try:
                return int(f"{digits:0<14}", 16) if len(digits) <= 14 else 0
            except ValueError:
                return 0
    return 0


def _with_threshold(state: TraceState, threshold: int) -> TraceState:
    """Return a tracestate with this threshold instead of any other; 0 removes it."""
    fields = [field for field in (state.get("ot") or "").split(";") if field and not field.startswith("th:")]
    if threshold:
        fields.insert(0, f"th:{f'{threshold:014x}'.rstrip('0')}")
    if fields:
        return state.update("ot", ";".join(fields))
    return state.delete("ot") if "ot" in state else state
