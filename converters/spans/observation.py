"""What one span records about an agent, in one vocabulary for all instrumentations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from spangrade.converters.spans.evaluations import Evaluation

Kind = Literal["turn", "workflow", "agent", "tool", "handoff", "llm", "other"]


class MessageCall(NamedTuple):
    """A tool call that a model requested. `arguments` is canonical JSON text, None if unknown."""

    name: str | None
    call_id: str | None
    arguments: str | None


class ToolResult(NamedTuple):
    """The result of a tool call, as a model received it. `result` is canonical JSON text, None if unknown.

    `failed` is what the message marks it as, None if it does not.
    """

    name: str | None
    call_id: str | None
    result: str | None
    failed: bool | None = None


class Digests(NamedTuple):
    """Digests of a conversation at a model call, which place the call in it.

    `history` covers the request up to the model's own last message, None if it has none and a conversation
    may begin here; `with_request` covers the whole request; `with_response` the request and its response,
    None without a response. `with_call_ids` covers the request and the ids of the calls in the response: what
    follows in a client that leaves the model's calls out of its requests. `response_id` is the response's,
    where it is what a later call names as its history.
    """

    history: str | None
    with_request: str
    with_response: str | None
    with_call_ids: str | None = None
    response_id: str | None = None


class _Fields(NamedTuple):
    kind: Kind
    trace_id: str
    span_id: str
    parent_span_id: str | None
    start_ns: int
    end_ns: int
    name: str | None = None
    agent: str | None = None
    conversation_id: str | None = None
    question_id: str | None = None
    user_input: str | None = None
    response: str | None = None
    continues: bool | None = None
    provider: str | None = None
    model: str | None = None
    call_key: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    grounding_chunks: int | None = None
    code_executions: int | None = None
    arguments: str | None = None
    result: str | None = None
    call_id: str | None = None
    failed: bool = False
    error: str | None = None
    tool_calls: tuple[MessageCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    state: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    handoff_to: str | None = None
    digests: Digests | None = None
    timed: bool = True
    sampled: bool = False
    sample_ratio: float | None = None
    agent_version: str | None = None
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    unreadable: tuple[str, str] | None = None
    not_understood: str | None = None
    span_name: str | None = None
    scope: str | None = None
    total_tokens: int | None = None
    repeated_calls: tuple[MessageCall, ...] = ()
    previous_reply: str | None = None
    run_input: str | None = None
    run_output: str | None = None
    raised: bool = False
    only_requested: bool = False
    succeeded: bool = False
    only_topmost: bool = False
    of_protocol: bool = False
    requested_model: str | None = None
    cut_off: bool = False
    tool_declarations: str | None = None
    system_instructions: str | None = None
    environment: str | None = None
    app_name: str | None = None
    service_name: str | None = None
    evaluations: tuple[Evaluation, ...] = ()
    sums_up: str | None = None
    of_user: bool = False
    user_messages: int | None = None
    declares_agent: str | None = None
    approved: bool = False
    counts_its_calls: bool = False
    by_shape: bool = False
    text_only: bool = False
    session_candidates: tuple[str, ...] = ()
    simulated_message: str | None = None
    fault: str | None = None


_POSITIONS = {name: position for position, name in enumerate(_Fields._fields)}


class Observation(_Fields):
    """What one span records. None means *unknown* in every field; JSON is canonical text.

    - `kind`: a *turn* stands for one user message, a *workflow* for a run of several agents; *handoff* is a
      transfer of control that is recorded as a span of its own; *other* only holds the tree together.
    - `user_input`, `response`: what this span records of its turn.
    - `continues`: whether a model call continues a turn: its newest input is a tool's result.
    - `tool_calls`: the calls that a model requested in this call; `tool_results`: the results that are new
      in its request, and those with an id that may be.
    - `requested_model`: the model that was asked for, where `model` is the one that answered.
    - `cut_off`: whether a failed model call may have ended after its output had begun.
    - `only_requested`: whether a tool's call has neither a span nor a result; `succeeded`: whether a message
      marks its result as that of a success.
    - `tool_declarations`: a JSON list of what the model was told of its tools (see `declarations`);
      `system_instructions`: its instructions.
    - `call_key`: what two spans about one model call share.
    - `grounding_chunks`: the number of sources that an answer is grounded on.
    - `code_executions`: how often code ran on the model's side.
    - `failed`, `error`: a failure that the span itself records; `raised`: whether an exception event does.
    - `span_name`: the span's own name, for runs that have no other; `scope`: that of its instrumentation.
    - `of_protocol`: whether the protocol between an agent and its tools records this (MCP).
    - `only_topmost`: whether this is a run only if no agent's work is around it (any function, else).
    - `total_tokens`: of input and output; `repeated_calls`: those of the model's last message in the request,
      and those with an id before it; `previous_reply`: the model's text before the user's message there;
      `user_messages`: how many messages of the user the request has, the newest included.
    - `run_input`, `run_output`: texts that are the user's message and the reply if this is a topmost run.
    - `state`: the writes of state variables, as (time in ns, variables).
    - `digests`: the place in its conversation of a model call that has no conversation id.
    - `agent_version`: of the agent or, without one, of the service.
    - `prompts`: those used, each `name@version`, or what is known of it.
    - `user_id`, `tags`, `environment`, `app_name`: of the session; `service_name`: of the resource.
    - `evaluations`: scores that the span records, whoever gave them.
    - `sampled`: whether other traces of the conversation may have been dropped; `sample_ratio`: the share of
      the conversations that are recorded, if its own is recorded whole.
    - `timed`: false if the end is unknown; `end_ns` is then the earliest that it can be.
    - `unreadable`: the dialect that could not read the span, and its error in one line.
    - `of_user`: whether this stands for a message that the user gives a run which goes on.
    - `sums_up`: the agent whose run's usage this span repeats, if that run has spans of its own.
    - `declares_agent`: the agent that this run is a part of, or is, as its framework says.
    - `approved`: whether a tool ran after a person's approval had been asked for.
    - `counts_its_calls`: whether a run's tokens are those of the model calls in it, and no others.
    - `by_shape`: whether this is taken for a model call because it has a model with tokens or messages.
    - `text_only`: whether a model call's output is recorded without the calls that it requested.
    - `session_candidates`: values that may be the session's id, which nothing says for certain.
    - `fault`: what a drill made a tool's call do.
    - `simulated_message`: what a simulated user said and decided: the span is not the agent's.
    - `not_understood`: the scope ("" without one) of a span that looks like an agent's and has no known kind.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # mypy checks the names and types of the tuple's own method

        def _replace(self, **changes: Any) -> Self:
            """Return the observation with other values, 3 times as fast: every span needs it."""
            values = list(self)
            for name, value in changes.items():
                values[_POSITIONS[name]] = value
            return tuple.__new__(type(self), values)
