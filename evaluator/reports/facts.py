"""What reports show of a session beside its grade, with the keys that ADK's evaluators use.

None is unknown. The facts of a run's sessions wait in a temporary file, so that they are never all in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from types import TracebackType
from typing import Any, NamedTuple, Self

import orjson

from spangrade.converters.datasets.files import writing
from spangrade.evaluator.metrics.activity import (
    agent_handoffs,
    grounding_utilization,
    sandbox_usage,
    tool_success_rate,
    tool_utilization,
)
from spangrade.evaluator.metrics.columns import (
    column,
    final_response,
    sub_agent_trace,
    trace_summary,
    user_inputs,
)
from spangrade.evaluator.metrics.latency import latency_metrics
from spangrade.evaluator.metrics.metric import Metric, Score
from spangrade.evaluator.metrics.usage import (
    cache_efficiency,
    cost,
    output_density,
    thinking_metrics,
    token_usage,
)
from spangrade.evaluator.session import Session
from spangrade.tracer.base.canonical_json import dumps

_EPOCH = datetime(1970, 1, 1)  # of a time in UTC without a zone, as in the views


_COUNTS = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")
_PAYLOADS = ("system_instructions", "extracted_data", "custom_extract", "session_state", "session_trace")


class SessionFacts:
    """The facts of sessions, in the order in which they were graded, in a temporary file."""

    def __init__(self) -> None:
        self._folder = Path(gettempdir())
        with writing(self._folder):
            self._file = TemporaryFile()  # noqa: SIM115 (closed by __exit__)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # of what could not be written: that was raised already
            self._file.close()

    def noted(self, sessions: Iterable[Session]) -> Iterator[Session]:
        """Yield sessions, and write down the facts of each."""
        for session in sessions:
            self.add(facts_lines(session))
            yield session

    def add(self, lines: bytes | bytearray) -> None:
        """Write down lines of facts. Raises InputError if they cannot be written."""
        with writing(self._folder):
            self._file.write(lines)

    def measured(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the `session_id` and `deterministic_metrics` of each session, with a position for `at`."""
        return self._every_other(0)

    def columns(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the columns of each session, with their position."""
        return self._every_other(1)

    def _every_other(self, odd: int) -> Iterator[tuple[int, dict[str, Any]]]:
        self._file.seek(0)
        position = 0
        for number, line in enumerate(iter(self._file.readline, b"")):
            if number % 2 == odd:
                yield position, orjson.loads(line)
            position += len(line)

    def at(self, position: int) -> dict[str, Any]:
        """Return what `measured` yielded with a position."""
        self._file.seek(position)
        facts: dict[str, Any] = orjson.loads(self._file.readline())
        return facts


def facts_lines(session: Session) -> bytes:
    """Return the facts of a session as two lines of JSON: what was measured, then the columns."""
    found = facts(session)
    columns = found.pop("columns")
    return f"{dumps({'session_id': session.session_id, **found})}\n{dumps(columns)}\n".encode()


def facts(session: Session) -> dict[str, Any]:
    """Return the facts of a session: `columns` of the CSV, and `deterministic_metrics` of the summary."""
    metrics = deterministic_metrics(session)
    tools = metrics["tool_utilization"]["tool_counts"]
    start = None if session.start_ns is None else _EPOCH + timedelta(microseconds=session.start_ns // 1000)
    columns = {
        "session_id": session.session_id,
        "agent_name": session.agents[0] if session.agents else None,
        "timestamp": None if start is None else start.isoformat(),
        "metric.duration_sec": metrics["latency_metrics"]["total_latency_seconds"],
        "metric.total_tokens": metrics["token_usage"]["total_tokens"],
        "metric.turn_count": len(session.turns),
        "metric.tool_calls": metrics["tool_utilization"]["total_tool_calls"],
        "metric.tool_errors": metrics["tool_success_rate"]["failed_tool_calls"],
        "metric.unique_tools": None if tools is None else list(tools),
        "user_inputs": user_inputs(session),
        "final_response": final_response(session),
        "sub_agent_trace": sub_agent_trace(session),
        "trace_summary": trace_summary(session),
        "user_id": session.user_id or column("user_id", session, None),
        **_payloads(session),
    }
    return {"columns": columns, "deterministic_metrics": metrics}


def _payloads(session: Session) -> dict[str, str | None]:
    """Return the columns of large JSON values as texts, so that reading them again loses no digit."""
    state = session.state_variables
    values = {name: column(name, session, None) for name in _PAYLOADS}
    if values["session_state"] is None and state is not None:
        values["session_state"] = {"state": state}
    return {
        name: value if value is None or isinstance(value, str) else dumps(value)
        for name, value in values.items()
    }


def deterministic_metrics(session: Session) -> dict[str, dict[str, Any]]:
    """Return what was measured of a session: groups of values with the keys of eval_summary.json.

    What a metric measures is the metric's; where it is inconclusive, it is null.
    """
    return {**_tokens(session), "latency_metrics": _latency(session), **_tools(session), **_activity(session)}


class _Measured(NamedTuple):
    """What a metric measured: its value and its details; nothing if it is inconclusive."""

    value: float | None
    details: Mapping[str, Any]

    @property
    def whole(self) -> int | None:
        """The value as the whole number that it is."""
        return None if self.value is None else int(self.value)


def _measured(metric: Metric, session: Session) -> _Measured:
    outcome = metric(session)
    return _Measured(outcome.value, outcome.details) if isinstance(outcome, Score) else _Measured(None, {})


def _tokens(session: Session) -> dict[str, dict[str, Any]]:
    usage, calls = session.usage, [call for call in session.llm_calls if not call.unanswered]
    tokens = _measured(token_usage, session)
    tokens_in, tokens_out, cached, reasoning = map(tokens.details.get, _COUNTS)
    thinking = [call.reasoning_tokens for call in calls]
    totals = _known([_sum(call.input_tokens, call.output_tokens) for call in calls])
    peak = None if totals is None else max(zip(totals, calls, strict=True), key=itemgetter(0))
    return {
        "token_usage": {
            "llm_calls": usage.llm_calls,
            "models_used": None if session.models is None else list(session.models),
            "total_tokens": tokens.whole,
            "prompt_tokens": tokens_in,
            "completion_tokens": _difference(tokens_out, reasoning),
            "cached_tokens": cached,
            "estimated_cost_usd": _measured(cost, session).value,
        },
        "cache_efficiency": {
            "cache_hit_rate": _measured(cache_efficiency, session).value,
            "total_cached_tokens": cached,
            "total_fresh_prompt_tokens": _difference(tokens_in, cached),
            "total_input_tokens": tokens_in,
        },
        "thinking_metrics": {
            "reasoning_ratio": _measured(thinking_metrics, session).value,
            "total_thinking_tokens": reasoning,
            "total_candidate_tokens": _difference(tokens_out, reasoning),
            "total_output_tokens": tokens_out,
            "turns_with_thinking": None
            if None in thinking
            else len({call.turn for call in calls if call.reasoning_tokens}),
        },
        "context_saturation": {
            "max_total_tokens": None if peak is None else peak[0],
            "peak_usage_span": None if peak is None else peak[1].span_id,
        },
        "output_density": {
            "average_output_tokens": _measured(output_density, session).value,
            "total_output_tokens": tokens_out,
            "llm_calls_count": usage.llm_calls,
        },
    }


def _latency(session: Session) -> dict[str, Any]:
    measured = _measured(latency_metrics, session)
    return {
        "total_latency_seconds": measured.value,
        "average_turn_latency_seconds": measured.details.get("average_turn_s"),
        "llm_latency_seconds": session.latency.llm_s,
        "tool_latency_seconds": session.latency.tool_s,
        "time_to_first_response_seconds": session.latency.first_response_s,
    }


def _tools(session: Session) -> dict[str, dict[str, Any]]:
    used, succeeded = (_measured(each, session) for each in (tool_utilization, tool_success_rate))
    without = {"tool_calls": 0, "failed_tool_calls": 0, "failed_tools": []} if used.value == 0 else {}
    outcome = succeeded.details or without
    return {
        "tool_utilization": {
            "total_tool_calls": used.whole,
            "unique_tools_used": used.details.get("unique_tools"),
            "tool_counts": used.details.get("tool_counts"),
        },
        "tool_success_rate": {
            "tool_success_rate": succeeded.value,
            "total_tool_calls": outcome.get("tool_calls"),
            "failed_tool_calls": outcome.get("failed_tool_calls"),
            "failed_tools_list": outcome.get("failed_tools"),
        },
    }


def _activity(session: Session) -> dict[str, dict[str, Any]]:
    agents, handoffs = session.agents, _measured(agent_handoffs, session)
    grounded, sandbox = (_measured(each, session) for each in (grounding_utilization, sandbox_usage))
    return {
        "grounding_utilization": {
            "total_grounding_chunks": grounded.details.get("grounding_chunks"),
            "total_grounded_responses": grounded.details.get("grounded_llm_calls"),
            "total_llm_responses": len(session.llm_calls),
        },
        "agent_handoffs": {
            "total_handoffs": handoffs.whole,
            "unique_agents_count": None if agents is None else len(agents),
            "agents_invoked_list": None if agents is None else list(agents),
        },
        # Which operations ran is not recorded: it is known only if none did.
        "sandbox_usage": {
            "total_sandbox_ops": sandbox.whole,
            "unique_ops_used": 0 if sandbox.value == 0 else None,
            "sandbox_tools_used": {} if sandbox.value == 0 else None,
        },
    }


def _known(values: Sequence[int | None]) -> list[int] | None:
    known = [value for value in values if value is not None]
    return known if values and len(known) == len(values) else None


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _difference(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else whole - part
