"""What a dialect reads of one span: a flat record for any kind, as a table of attribute names fills it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import compress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from spangrade.converters.spans.evaluations import Evaluation
from spangrade.converters.spans.observation import (
    NO_NOTES,
    NO_TRAITS,
    TRAITS,
    Digests,
    Handoff,
    Kind,
    MessageCall,
    MessageExchange,
    ModelCall,
    Notes,
    Observation,
    RunSpan,
    SessionContext,
    SpanFailure,
    SpanRef,
    Structure,
    TokenCounts,
    ToolResult,
    ToolUse,
    TurnSpan,
)


class _Fields(NamedTuple):
    # The fields of each group stand together and in its order: `observation_of` takes them as one slice. What
    # most spans have comes first: Python looks for each argument from the beginning.
    kind: Kind
    trace_id: str
    span_id: str
    parent_span_id: str | None
    start_ns: int
    end_ns: int
    timed: bool = True
    span_name: str | None = None
    scope: str | None = None
    name: str | None = None
    agent: str | None = None
    model: str | None = None
    provider: str | None = None
    requested_model: str | None = None
    call_key: str | None = None
    call_id: str | None = None
    arguments: str | None = None
    result: str | None = None
    user_input: str | None = None
    continues: bool | None = None
    tool_results: tuple[ToolResult, ...] = ()
    response: str | None = None
    tool_calls: tuple[MessageCall, ...] = ()
    repeated_calls: tuple[MessageCall, ...] = ()
    previous_reply: str | None = None
    user_messages: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    total_tokens: int | None = None
    digests: Digests | None = None
    code_executions: int | None = None
    conversation_id: str | None = None
    question_id: str | None = None
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    agent_version: str | None = None
    environment: str | None = None
    app_name: str | None = None
    service_name: str | None = None
    sampled: bool = False
    sample_ratio: float | None = None
    session_candidates: tuple[str, ...] = ()
    tool_declarations: str | None = None
    system_instructions: str | None = None
    state: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    unreadable: tuple[str, str] | None = None
    not_understood: str | None = None
    sums_up: str | None = None
    simulated_message: str | None = None
    driven: str | None = None
    unfinished: str | None = None
    failed: bool = False
    error: str | None = None
    raised: bool = False
    cut_off: bool = False
    run_input: str | None = None
    run_output: str | None = None
    declares_agent: str | None = None
    candidate: str | None = None
    handoff_to: str | None = None
    grounding_chunks: int | None = None
    fault: str | None = None
    approved: bool = False
    by_content: bool = False
    by_shape: bool = False
    cached_unplaced: bool = False
    counts_its_calls: bool = False
    doubtful_tokens: bool = False
    is_node: bool = False
    of_bus: bool = False
    of_protocol: bool = False
    of_server: bool = False
    of_user: bool = False
    only_requested: bool = False
    only_topmost: bool = False
    succeeded: bool = False
    text_only: bool = False


_POSITIONS = {name: position for position, name in enumerate(_Fields._fields)}


class Reading(_Fields):
    """What a dialect read of one span. None means *unknown* in every field; JSON is canonical text.

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
    - `of_protocol`: whether the protocol between an agent and its tools records this (MCP); `of_server`:
      whether on the side of the server.
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
    - `declares_agent`: the agent that this run is a part of, or is, as its framework says; `candidate`: the
      name of its span, if it is an agent's run without another; `is_node`: whether it is a node of a graph.
    - `of_bus`: whether a model call is read of a message between agents, which repeats what a model answered.
    - `approved`: whether a tool ran after a person's approval had been asked for.
    - `counts_its_calls`: whether a run's tokens are those of the model calls in it, and no others.
    - `by_content`: whether this is read by its content, under an operation of a name that is not known.
    - `cached_unplaced`: whether nothing tells if the input includes the cached tokens; `doubtful_tokens`:
      whether counts contradict each other, so that they are unknown.
    - `by_shape`: whether this is taken for a model call because it has a model with tokens or messages.
    - `text_only`: whether a model call's output is recorded without the calls that it requested.
    - `session_candidates`: values that may be the session's id, which nothing says for certain.
    - `fault`: what a drill made a tool's call do.
    - `simulated_message`: what a simulated user said and decided: the span is not the agent's.
    - `driven`: what the run, or the test, that asked a turn saw of it, as JSON.
    - `unfinished`: what is not seen of the turn, such as a span that never ended.
    - `not_understood`: the scope ("" without one) of a span that looks like an agent's and has no known kind.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # mypy checks the names and types of the tuple's own method

        def _replace(self, **changes: Any) -> Self:
            """Return the reading with other values, 3 times as fast: every span needs it."""
            values = list(self)
            for name, value in changes.items():
                values[_POSITIONS[name]] = value
            return tuple.__new__(type(self), values)


def _taking(*names: str) -> Callable[[Reading], tuple[Any, ...]]:
    """Return what takes the values of fields out of a reading, in one slice if they stand together."""
    positions = [_POSITIONS[name] for name in names]
    if positions == list(range(positions[0], positions[0] + len(positions))):
        return itemgetter(slice(positions[0], positions[-1] + 1))
    return itemgetter(*positions)


_new = tuple.__new__
_COMMON = 6  # fields that all observations have
_SPAN = _taking(*(name if name != "name" else "span_name" for name in SpanRef._fields))
_SESSION, _NOTES = _taking(*SessionContext._fields), _taking(*Notes._fields)
_EXCHANGE, _TOKENS = _taking(*MessageExchange._fields), _taking(*TokenCounts._fields)
_TRAITS = _taking(*TRAITS)
_OF_RUN = _taking(*RunSpan._fields[_COMMON + 2 : -1])  # without `is_agent`
_OF_TURN, _OF_MODEL_CALL = (_taking(*kind._fields[_COMMON + 2 :]) for kind in (TurnSpan, ModelCall))
_OF_TOOL_CALL, _OF_HANDOFF = (_taking(*kind._fields[_COMMON:]) for kind in (ToolUse, Handoff))


@lru_cache(maxsize=4096)
def _context(*values: Any) -> SessionContext:
    """Return the facts of a session, one and the same value for the spans that say the same."""
    return SessionContext(*values)


def observation_of(reading: Reading) -> Observation:
    """Return what a reading says, by its kind; fields that are not of that kind are left out."""
    notes, traits = _NOTES(reading), _TRAITS(reading)
    common = (
        _new(SpanRef, _SPAN(reading)),
        _context(*_SESSION(reading)),
        NO_NOTES if notes == NO_NOTES else _new(Notes, notes),
        reading.agent,
        SpanFailure(reading.error, reading.raised, reading.cut_off) if reading.failed else None,
        frozenset(compress(TRAITS, traits)) if True in traits else NO_TRAITS,
    )
    kind = reading.kind
    if kind == "other":
        return _new(Structure, common)
    if kind == "tool":
        return _new(ToolUse, (*common, *_OF_TOOL_CALL(reading)))
    if kind == "handoff":
        return _new(Handoff, (*common, *_OF_HANDOFF(reading)))
    exchanged = (_new(MessageExchange, _EXCHANGE(reading)), _new(TokenCounts, _TOKENS(reading)))
    if kind == "llm":
        return _new(ModelCall, (*common, *exchanged, *_OF_MODEL_CALL(reading)))
    if kind == "turn":
        return _new(TurnSpan, (*common, *exchanged, *_OF_TURN(reading)))
    return _new(RunSpan, (*common, *exchanged, *_OF_RUN(reading), kind == "agent"))
