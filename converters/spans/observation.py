"""An observation: one span's record of an agent, in one vocabulary, with a type for each kind.

Each has the reference of its span, what the span says of the session, and the few fields of its kind. None
means *unknown* in every field; JSON is canonical text. A dialect fills one directly, most by the conventions'
reader (`dialects/genai.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from spangrade.converters.spans.evaluations import Evaluation

Kind = Literal["turn", "workflow", "agent", "tool", "handoff", "llm", "other"]
# What is peculiar to how an instrumentation records a span:
Trait = Literal[
    "approved",  # a tool ran after a person's approval had been asked for
    "by_content",  # read by its content, under an operation of a name that is not known
    "by_shape",  # taken for a model call because it has a model with tokens or messages
    "cached_unplaced",  # nothing tells whether a model call's input includes its cached tokens
    "counts_its_calls",  # a run's tokens are those of the model calls in it, and no others
    "doubtful_tokens",  # a model call's counts contradict each other, or leave open what they include
    "in_check",  # below the span of a guardrail or an evaluator, or that span itself
    "input_in_prompt",  # a run's `run_input` is the user's message only where a model's message contains it
    "is_check",  # the span of a guardrail or an evaluator
    "interrupted",  # a tool's span ended to wait for a person
    "is_node",  # a node of a graph, which an instrumentation takes for an agent
    "is_workflow",  # an agent with the name of a workflow: it may only hold agents together
    "named_by_span",  # nothing names the tool but the name of its span
    "inferred",  # the texts of a turn, from a pair of question and answer that no convention names
    "of_bus",  # a message between agents, which repeats what a model answered
    "doubtful_outcome",  # a mark beside a tool's result does not say whether it succeeded
    "of_protocol",  # recorded by the protocol between an agent and its tools (MCP)
    "of_provider",  # the model's provider ran the tool
    "of_server",  # recorded by the server of that protocol, where the client may have recorded the call, too
    "of_voice",  # a turn by the pauses of a voice stack, which may hold no utterance of the user, or several
    "of_user",  # stands for a message that the user gives a run which goes on
    "only_alone",  # a run's tokens count only where no model call records any
    "only_requested",  # a tool's call that has neither a span nor a result
    "only_topmost",  # a run only if no agent's work is around it (any function, else)
    "own_run",  # a run's tokens are its own: the agent's before, and those of runs in it, are not in them
    "succeeded",  # a message marks a tool's result as that of a success
    "text_only",  # a model call's output is recorded without the calls that it requested
]
Traits: TypeAlias = frozenset[Trait]
NAMELESS = "a call of a tool whose name is not recorded"
NO_TRAITS: Traits = frozenset()
TRAITS: tuple[Trait, ...] = get_args(Trait)


class ToolResult(NamedTuple):
    """The result of a tool call, as a model received it. `result` is canonical JSON text, None if unknown.

    `failed` is what the message marks it as, None if it does not; it is `doubtful` where a mark says neither.
    """

    name: str | None
    call_id: str | None
    result: str | None
    failed: bool | None = None
    doubtful: bool = False


class MessageCall(NamedTuple):
    """A tool call that a model requested. `arguments` is canonical JSON text, None if unknown.

    The model's provider ran it if it is `by_provider`. `result` is the one that the model's message has, too.
    `other_id` is a second id that the vendor gives the call (OpenAI's Responses: that of the item).
    """

    name: str | None
    call_id: str | None
    arguments: str | None
    by_provider: bool = False
    result: ToolResult | None = None
    other_id: str | None = None

    def has_id(self, call_id: str | None) -> bool:
        """Return whether an id, which is not None, is one of the call's."""
        return call_id is not None and call_id in (self.call_id, self.other_id)


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


class SpanRef(NamedTuple):
    """Which span an observation is of, and when it ran.

    `timed` is false if the end is unknown; `end_ns` is then the earliest that it can be. `name` is the span's
    own, `scope` the name of its instrumentation. The id of a call that only messages record is "".
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None
    start_ns: int
    end_ns: int
    timed: bool = True
    name: str | None = None
    scope: str | None = None

    @property
    def node(self) -> tuple[str, str]:
        """The trace's and the span's id, which together are one span's alone."""
        return self[:2]

    @property
    def interval(self) -> tuple[int, int]:
        """The start and the end, in nanoseconds."""
        return self[3:5]


class SessionContext(NamedTuple):
    """The session of a span: most spans say little of it, and those of a session say the same.

    `agent_version` is the agent's or, without one, the service's; `service_name` is the resource's. `prompts`
    are those used, each `name@version` or what is known of it. `sampled` tells whether other traces of the
    conversation may have been dropped, `sample_ratio` the share of the conversations that are recorded, if
    its own is recorded whole. `session_candidates` are values that may be the session's id, which nothing
    says for certain.
    """

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


class Notes(NamedTuple):
    """State, scores and declared tools, which a span of any kind may record.

    - `tool_declarations`: a JSON list of what a model was told of its tools (see `declarations`);
      `system_instructions`: its instructions.
    - `state`: the writes of state variables, as (time in ns, variables).
    - `evaluations`: scores, whoever gave them.
    - `simulated_message`: what a simulated user said and decided: the span is not the agent's.
    - `driven`: what the run, or the test, that asked a turn saw of it, as JSON.
    - `unfinished`: what is not seen of the turn, such as a span that never ended.
    - `restarted_ns`: when the receiver was restarted before the span's parent had arrived.
    - `unreadable`: the dialect that could not read the span, and its error in one line.
    - `not_understood`: the scope ("" without one) of a span that looks like an agent's and has no known kind;
      `sums_up`: the agent whose run's usage it repeats, if that run has spans of its own.
    """

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
    restarted_ns: int | None = None


class SpanFailure(NamedTuple):
    """A failure that a span itself records.

    `raised` tells whether an exception event does, `cut_off` whether a model call may have ended after its
    output had begun.
    """

    error: str | None = None
    raised: bool = False
    cut_off: bool = False


class MessageExchange(NamedTuple):
    """The new part of a model call or a run: its newest input, and its response.

    `continues` tells whether the newest input is the result of a tool and not the user's; None without input.
    `tool_calls` are those that the response requests; `tool_results` those that are new in the request, and
    those with an id that may be. `repeated_calls` are those of the model's last message, which its results
    follow, and before them those with an id that follow the user's message; `previous_reply` is the model's
    text before that, `reply_since` the newest of those after it. `user_messages` is the number of the user's
    messages in the request, up to the newest; None without one. `unread` are the types of the parts of the
    model's messages that nobody knows: they may be calls. `code_runs` is how often the provider ran code.
    """

    user_input: str | None = None
    continues: bool | None = None
    tool_results: tuple[ToolResult, ...] = ()
    response: str | None = None
    tool_calls: tuple[MessageCall, ...] = ()
    repeated_calls: tuple[MessageCall, ...] = ()
    previous_reply: str | None = None
    user_messages: int | None = None
    unread: tuple[str, ...] = ()
    code_runs: int = 0
    reply_since: str | None = None


class TokenCounts(NamedTuple):
    """The counts of a model call or of a run; `total_tokens` is of input and output."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    total_tokens: int | None = None


NO_CONTEXT = SessionContext()
NO_NOTES = Notes()
NO_EXCHANGE = MessageExchange()
NO_TOKENS = TokenCounts()


class RunSpan(NamedTuple):
    """A run of an agent (`is_agent`), or of several: a workflow.

    `run_input`, `run_output` are texts that are the user's message and the reply if it is topmost. `agent` is
    the one that it belongs to, `declares_agent` the one that it is a part of, or is, as its framework says;
    `candidate` is the name of its span, if it is an agent's run without another.
    """

    span: SpanRef
    session: SessionContext = NO_CONTEXT
    notes: Notes = NO_NOTES
    agent: str | None = None
    failure: SpanFailure | None = None
    traits: Traits = NO_TRAITS
    exchange: MessageExchange = NO_EXCHANGE
    tokens: TokenCounts = NO_TOKENS
    name: str | None = None
    model: str | None = None
    digests: Digests | None = None
    run_input: str | None = None
    run_output: str | None = None
    declares_agent: str | None = None
    candidate: str | None = None
    is_agent: bool = False


class TurnSpan(NamedTuple):
    """One message of the user and all that follows; its texts are those of a `RunSpan`."""

    span: SpanRef
    session: SessionContext = NO_CONTEXT
    notes: Notes = NO_NOTES
    agent: str | None = None
    failure: SpanFailure | None = None
    traits: Traits = NO_TRAITS
    exchange: MessageExchange = NO_EXCHANGE
    tokens: TokenCounts = NO_TOKENS
    model: str | None = None
    run_input: str | None = None
    run_output: str | None = None


class ModelCall(NamedTuple):
    """A call of a model. `requested_model` was asked for, where `model` is the one that answered.

    `call_key` is what two spans about one call share; `grounding_chunks` is the number of sources that the
    answer is grounded on, `code_executions` how often code ran on the model's side; `digests` place the call
    in a conversation that has no id.
    """

    span: SpanRef
    session: SessionContext = NO_CONTEXT
    notes: Notes = NO_NOTES
    agent: str | None = None
    failure: SpanFailure | None = None
    traits: Traits = NO_TRAITS
    exchange: MessageExchange = NO_EXCHANGE
    tokens: TokenCounts = NO_TOKENS
    provider: str | None = None
    model: str | None = None
    requested_model: str | None = None
    call_key: str | None = None
    digests: Digests | None = None
    grounding_chunks: int | None = None
    code_executions: int | None = None


class ToolUse(NamedTuple):
    """A call of a tool, by a span or by messages alone.

    `handoff_to` is the agent that gets control; `fault` is what a drill made the call do.
    """

    span: SpanRef
    session: SessionContext = NO_CONTEXT
    notes: Notes = NO_NOTES
    agent: str | None = None
    failure: SpanFailure | None = None
    traits: Traits = NO_TRAITS
    name: str | None = None
    call_id: str | None = None
    arguments: str | None = None
    result: str | None = None
    handoff_to: str | None = None
    fault: str | None = None


class Handoff(NamedTuple):
    """A transfer of control to an agent (`handoff_to`) that is recorded as a span of its own."""

    span: SpanRef
    session: SessionContext = NO_CONTEXT
    notes: Notes = NO_NOTES
    agent: str | None = None
    failure: SpanFailure | None = None
    traits: Traits = NO_TRAITS
    name: str | None = None
    arguments: str | None = None
    handoff_to: str | None = None


class Structure(NamedTuple):
    """A span that is not an agent's work: it holds the tree together, and may tell of the session."""

    span: SpanRef
    session: SessionContext = NO_CONTEXT
    notes: Notes = NO_NOTES
    agent: str | None = None
    failure: SpanFailure | None = None
    traits: Traits = NO_TRAITS


Work: TypeAlias = RunSpan | TurnSpan | ModelCall | ToolUse | Handoff
Observation: TypeAlias = Work | Structure
Exchanging: TypeAlias = RunSpan | TurnSpan | ModelCall  # what has messages and tokens

TYPES: Mapping[Kind, type[Observation]] = {
    "turn": TurnSpan,
    "workflow": RunSpan,
    "agent": RunSpan,
    "tool": ToolUse,
    "handoff": Handoff,
    "llm": ModelCall,
    "other": Structure,
}
_KINDS = {type_: kind for kind, type_ in TYPES.items()}
_GROUPS: Mapping[str, Any] = {
    "session": SessionContext,
    "notes": Notes,
    "exchange": MessageExchange,
    "tokens": TokenCounts,
}
_GROUP_OF = {name: field for field, group in _GROUPS.items() for name in group._fields}
_Of = TypeVar("_Of", bound=Observation)


def kind_of(observation: Observation) -> Kind:
    """Return the word for an observation's kind that dialects and `spangrade show --why` use."""
    if isinstance(observation, RunSpan):
        return "agent" if observation.is_agent else "workflow"
    return _KINDS[type(observation)]


def structure_of(observation: Observation) -> Structure:
    """Return an observation that does not count as structure: all but the fields of its kind."""
    return Structure(*observation[:6])


def nameless(span: Structure) -> Structure:
    """Return the span of a call of a tool that nothing names as one that is not understood."""
    return span._replace(notes=span.notes._replace(unfinished=NAMELESS, not_understood=span.span.scope or ""))


def as_kind(observation: Observation, kind: Kind) -> Observation:
    """Return an observation as one of another kind, with the fields that both have."""
    type_ = TYPES[kind]
    if type(observation) is not type_:
        values: dict[str, Any] = dict(zip(observation._fields, observation, strict=True))
        observation = type_(**{name: value for name, value in values.items() if name in type_._fields})
    if isinstance(observation, RunSpan) and observation.is_agent != (kind == "agent"):
        return observation._replace(is_agent=kind == "agent")
    return observation


def changed(observation: _Of, /, **fields: Any) -> _Of:
    """Return an observation with other values of fields, by the names that `fields_of` yields.

    Raises TypeError for a field that it does not have.
    """
    own: dict[str, Any] = {}
    grouped: dict[str, dict[str, Any]] = {}
    unknown: list[str] = []
    for name, value in fields.items():
        if name in _GROUP_OF:
            grouped.setdefault(_GROUP_OF[name], {})[name] = value
        elif name in TRAITS:
            traits = own.get("traits", observation.traits)
            own["traits"] = traits | {name} if value else traits - {name}
        elif name in observation._fields:
            own[name] = value
        elif name not in {"failed", "error"}:
            unknown.append(name)
    failure = observation.failure
    if fields.get("failed", failure is not None):
        own["failure"] = (failure or SpanFailure())._replace(
            error=fields.get("error", failure and failure.error)
        )
    elif failure is not None:
        own["failure"] = None
    for field, values in grouped.items():
        if field in observation._fields:
            own[field] = getattr(observation, field)._replace(**values)
        else:
            unknown += values
    if "session" in grouped:
        own["session"] = shared_context(*own["session"])
    if unknown:
        raise TypeError(f"a {type(observation).__name__} has no {', '.join(unknown)}")
    replaced: Any = observation._replace(**own)
    return replaced  # type: ignore[no-any-return]


def named_run(run: RunSpan, name: str | None) -> RunSpan:
    """Return a run as that of the agent of a name; without one it is a workflow."""
    return run._replace(name=name, agent=name, is_agent=name is not None)


@lru_cache(maxsize=4096)
def shared_context(*values: Any) -> SessionContext:
    """Return the facts of a session, one and the same value for the spans that say the same."""
    return SessionContext(*values)


def fields_of(observation: Observation) -> Iterator[tuple[str, object]]:
    """Yield an observation's kind and its fields, by name, without its span: those that `changed` takes."""
    yield "kind", kind_of(observation)
    for name, value in zip(observation._fields, observation, strict=True):
        if isinstance(value, SessionContext | Notes | MessageExchange | TokenCounts):
            yield from zip(value._fields, value, strict=True)
        elif name == "failure":
            yield "failed", value is not None
            yield "error", value.error if isinstance(value, SpanFailure) else None
        elif name == "traits":
            yield from ((trait, trait in observation.traits) for trait in TRAITS)
        elif name not in {"span", "is_agent"}:
            yield name, value
