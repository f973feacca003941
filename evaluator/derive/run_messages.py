"""Tool calls and results that a run records, not a model call: in log events, or in the state it returns."""

from __future__ import annotations

from collections.abc import Sequence

from spangrade.converters.spans.observation import Observation

_RUNS = frozenset({"turn", "workflow"})


def with_messages_of_runs(
    llm_calls: Sequence[Observation], members: Sequence[Observation]
) -> list[Observation]:
    """Return one turn's model calls, and after them in time what runs among `members` record besides.

    A run's tool calls, which only complete the spans of tools, count where no model call records any, each
    call id once; its results always. Those of an agent tell which agent made a call that something else ran.
    """
    by_models = any(o.tool_calls for o in llm_calls)
    runs = [o for o in members if o.kind in _RUNS and (o.tool_calls or o.tool_results)]
    if not by_models:
        runs += [o._replace(tool_results=()) for o in members if o.kind == "agent" and o.tool_calls]
    if not runs:
        return list(llm_calls)
    recorded = list(llm_calls)
    known: set[str] = set()
    for run in runs:
        calls = [c for c in run.tool_calls if c.call_id and c.call_id not in known and not by_models]
        known.update(call.call_id for call in calls if call.call_id)
        if calls:
            recorded.append(run._replace(tool_calls=tuple(calls), tool_results=()))
        if run.tool_results:
            recorded.append(run._replace(tool_calls=()))
    return sorted(recorded, key=lambda o: o.start_ns)
