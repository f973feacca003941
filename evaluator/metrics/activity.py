"""Metrics of tool calls, hand-offs, grounding and code execution, reported for every session."""

from __future__ import annotations

from collections import Counter

from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, metric
from spangrade.evaluator.session import Session


@metric(unit="calls", higher_is_better=None, grows=True)
def tool_utilization(session: Session) -> Outcome:
    """The number of tool calls, without hand-offs.

    Inconclusive if what a turn called is not recorded.

    Source: own definition.
    """
    if unknown := session.calls_unknown_of():
        return Inconclusive(unknown)
    names = [call.tool_name for call in session.tool_interactions if not call.handoff]
    counts = {name: names.count(name) for name in names} if len(names) < 20 else dict(Counter(names))
    total = len(names)
    details = {"unique_tools": len(counts), "tool_counts": counts}
    return Score(float(total), None, f"{total} calls of {len(counts)} tools", (), details)


@metric()
def tool_success_rate(session: Session) -> Outcome:
    """The share of the tool calls that did not fail, without hand-offs.

    Calls that wait for approval, or were rejected, are left out: their tools did not run. Inconclusive if
    there is no call, or if it is not recorded whether one failed.

    Source: own definition.
    """
    calls = [call for call in session.tool_interactions if call.ran and not call.handoff]
    if unknown := session.calls_unknown_of():
        return Inconclusive(unknown)
    if not calls:
        return Inconclusive("no tool call is recorded; if a tool ran, record it with a span")
    failed = [call for call in calls if call.ok is False]
    rate = (len(calls) - len(failed)) / len(calls)
    in_doubt = [call.tool_name for call in calls if call.ok is None]
    if in_doubt:
        what = f"whether {', '.join(dict.fromkeys(in_doubt))} failed is not recorded"
        return Inconclusive(f"{what}; record the result or the error", rate)
    names = [call.tool_name for call in failed]
    reason = f"failed: {', '.join(names)}" if failed else "no call failed"
    spans = tuple(call.span_id for call in failed if call.span_id is not None)
    details = {"tool_calls": len(calls), "failed_tool_calls": len(failed), "failed_tools": names}
    return Score(rate, None, reason, spans, details)


@metric(unit="hand-offs", higher_is_better=None, grows=True)
def agent_handoffs(session: Session) -> Outcome:
    """The number of hand-offs from one agent to another.

    Inconclusive if the agents are not recorded.

    Source: own definition.
    """
    if session.handoffs is None:
        return Inconclusive("hand-offs are not recorded; name the agents on the spans (gen_ai.agent.name)")
    reason = ", ".join(f"{source or 'unknown'} to {target}" for source, target in session.handoffs) or "none"
    agents = None if session.agents is None else list(session.agents)
    details = {"handoffs": [list(pair) for pair in session.handoffs], "agents": agents}
    return Score(float(len(session.handoffs)), None, reason, (), details)


@metric()
def grounding_utilization(session: Session) -> Outcome:
    """The share of the model calls whose answer is grounded on sources, such as search results.

    Inconclusive without model calls, or if the grounding of one is not recorded.

    Source: the grounding metadata of Gemini's responses.
    """
    chunks = [call.grounding_chunks for call in session.llm_calls]
    if not chunks:
        return Inconclusive("no model call is recorded; instrument the model's client, or use llm_call")
    grounded = [call.span_id for call in session.llm_calls if call.grounding_chunks]
    unknown = chunks.count(None)
    if unknown:
        best = (len(grounded) + unknown) / len(chunks)
        what = f"grounding is not recorded for {unknown} of {len(chunks)} model calls"
        return Inconclusive(f"{what}; record the model's response with its grounding", best)
    total = sum(filter(None, chunks))
    reason = f"{len(grounded)} of {len(chunks)} model calls, on {total} sources"
    details = {"grounded_llm_calls": len(grounded), "llm_calls": len(chunks), "grounding_chunks": total}
    return Score(len(grounded) / len(chunks), None, reason, tuple(grounded), details)


@metric(unit="calls", higher_is_better=None, grows=True)
def sandbox_usage(session: Session) -> Outcome:
    """The number of code executions in a model's own sandbox.

    Inconclusive without model calls, or if the parts of an answer are not recorded.

    Source: own definition.
    """
    runs = [call.code_executions for call in session.llm_calls]
    if not runs:
        return Inconclusive("no model call is recorded; instrument the model's client, or use llm_call")
    if unknown := runs.count(None):
        what = f"code execution is not recorded for {unknown} of {len(runs)} model calls"
        return Inconclusive(f"{what}; record the model's response with all its parts")
    spans = tuple(call.span_id for call in session.llm_calls if call.code_executions)
    total = sum(filter(None, runs))
    return Score(float(total), None, f"{total} runs in {len(spans)} of {len(runs)} model calls", spans)


METRICS = (tool_utilization, tool_success_rate, agent_handoffs, grounding_utilization, sandbox_usage)
