"""What an agent did in one conversation, as derived from its spans.

The rows (`Turn`, `Step`, `ToolInteraction`, `LLMCall`, `Error`) have the columns of the SQL views of the
same names. None is *unknown* everywhere: the spans do not tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple


class Turn(NamedTuple):
    """One user message and all that followed until the next. `turn` counts from 1."""

    turn: int
    user_input: str | None
    final_response: str | None
    start_ns: int
    end_ns: int
    latency_s: float | None
    trace_ids: tuple[str, ...]


class Step(NamedTuple):
    """An agent or a tool that started; the steps' names, in order, are the trajectory."""

    position: int
    turn: int | None
    kind: Literal["agent", "tool"]
    name: str
    start_ns: int
    trace_id: str
    span_id: str | None


class ToolInteraction(NamedTuple):
    """One execution of one tool. `input_arguments` and `output` are JSON values.

    `ok` is None where the spans carry neither a result nor a sign of failure. A hand-off (a tool that
    only transfers control to another agent) is marked and kept.
    """

    position: int
    turn: int | None
    tool_name: str
    input_arguments: Any
    output: Any
    arguments_known: bool
    output_known: bool
    ok: bool | None
    error: str | None
    call_id: str | None
    agent: str | None
    handoff: bool
    start_ns: int
    end_ns: int
    latency_s: float | None
    trace_id: str
    span_id: str | None


class LLMCall(NamedTuple):
    """One call of a model. Tokens: `input_tokens` includes cached ones, `output_tokens` reasoning.

    `grounding_chunks` are the sources that the answer was grounded on (a search's results), `code_executions`
    the times that code ran in the model's own sandbox.
    """

    position: int
    turn: int | None
    agent: str | None
    provider: str | None
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None
    reasoning_tokens: int | None
    grounding_chunks: int | None
    code_executions: int | None
    cost_usd: float | None
    start_ns: int
    end_ns: int
    latency_s: float | None
    trace_id: str
    span_id: str


class Error(NamedTuple):
    """A failure where it began: `where` is "tool NAME", "agent NAME" or "llm MODEL"."""

    where: str
    message: str | None
    trace_id: str
    span_id: str | None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the inference calls alone; `complete` if every call recorded its input and output."""

    llm_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds. `total_s` is the sum of the turns; the user's thinking time is not in it.

    `llm_s` and `tool_s` are the union of the intervals of model calls and of tools, each without what it
    encloses; `framework_s` is the rest of the total.
    """

    total_s: float | None = None
    llm_s: float | None = None
    tool_s: float | None = None
    framework_s: float | None = None
    first_response_s: float | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation. `session_id_source` is "trace" where no conversation id was recorded.

    `missing_spans` are those that must have been there (recorded spans beneath an agent's run name them as
    parents) and are not; of a `sampled` one whole traces may have been dropped. What is recorded is then not,
    or may not be, the whole.
    """

    session_id: str
    session_id_source: Literal["conversation", "trace"]
    question_id: str | None
    turns: tuple[Turn, ...]
    trajectory: tuple[Step, ...]
    agents: tuple[str, ...] | None
    tool_interactions: tuple[ToolInteraction, ...]
    handoffs: tuple[tuple[str | None, str], ...] | None
    state_variables: dict[str, Any] | None
    llm_calls: tuple[LLMCall, ...]
    usage: Usage
    models: tuple[str, ...] | None
    cost_usd: float | None
    cost_unknown: str | None
    latency: Latency
    errors: tuple[Error, ...]
    missing_spans: int = 0
    sampled: bool = False
