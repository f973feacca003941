"""Tool calls and results that a run records, not a model call: in log events, or in the state it returns."""

from __future__ import annotations

from collections.abc import Sequence

from spangrade.converters.spans.observation import Exchanging, ModelCall, Observation, RunSpan, TurnSpan


def with_messages_of_runs(
    model_calls: Sequence[ModelCall], members: Sequence[Observation]
) -> list[Exchanging]:
    """Return one turn's model calls, and after them in time what runs among `members` record besides.

    A run's tool calls, which only complete the spans of tools, count where no model call records any, each
    call id once; its results always. Those of an agent tell which agent made a call that something else ran.
    """
    by_models = any(call.exchange.tool_calls for call in model_calls)
    runs: list[RunSpan | TurnSpan] = []
    of_agents: list[RunSpan] = []
    for o in members:
        if isinstance(o, RunSpan) and o.is_agent:
            if o.exchange.tool_calls and not by_models:
                of_agents.append(o._replace(exchange=o.exchange._replace(tool_results=())))
        elif isinstance(o, RunSpan | TurnSpan) and (o.exchange.tool_calls or o.exchange.tool_results):
            runs.append(o)
    recorded: list[Exchanging] = list(model_calls)
    known: set[str] = set()
    for run in [*runs, *of_agents]:
        exchange = run.exchange
        calls = [c for c in exchange.tool_calls if c.call_id and c.call_id not in known and not by_models]
        known.update(call.call_id for call in calls if call.call_id)
        if calls:
            own = exchange._replace(tool_calls=tuple(calls), tool_results=())
            recorded.append(run._replace(exchange=own))
        if exchange.tool_results:
            recorded.append(run._replace(exchange=exchange._replace(tool_calls=())))
    return sorted(recorded, key=lambda o: o.span.start_ns) if runs or of_agents else recorded
