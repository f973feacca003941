"""What an agent did in one conversation, as derived from its spans.

Every field says in its `Column` what it means. That is the one source of columns: `derive.schema` makes the
tables, the views, the JSON of a session and docs/sql.md of these types. None is *unknown* everywhere: the
spans do not record it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from spangrade.tracer.base.lookalike_letters import plain_form
from spangrade.tracer.base.plugins import notebook_html


class Column(NamedTuple):
    """What a field means, for people, and how views and JSON show it.

    Attributes:
        description: one line of plain text.
        unit: of the values; "ns" is a point in time, shown as a timestamp.
        shown_as: its name in a view, if another than the field's.
        json_as: its name in JSON, if another than the field's.
        shown: whether views and JSON have it.
        known_by: the field that tells a JSON null (true) from unknown (false), where both are None.
    """

    description: str
    unit: str = ""
    shown_as: str = ""
    json_as: str = ""
    shown: bool = True
    known_by: str = ""


_POSITION = Column("number in the session, from 1, by start")
_TURN = Column("the turn that it belongs to")
_AGENT = Column("the agent that made it")
_START = Column("when it started, UTC", "ns", shown_as="started_at", json_as="started_at")
_END = Column("when it ended, UTC", "ns", shown=False)
_LATENCY = Column("its duration", "s")
_TRACE = Column("the trace that records it")
_SPAN = Column("the span that records it; unknown where only messages do")
_KNOWN = Column("whether the value is recorded", shown=False)
_REMOVED = Column("whether values in the arguments were removed before they were recorded; they are null")


# How messages of exceptions, and most codes of errors, begin: `ValueError: …`, `payment_declined`.
_ERROR_TYPE = re.compile(r"([A-Za-z_][\w.]{0,79})(?::|$)")


def error_type(message: str | None) -> str | None:
    """Return the type of an error with which its message begins, without its module; None without one."""
    found = _ERROR_TYPE.match(message or "")
    return found[1].rpartition(".")[2] or None if found else None


Origin = Literal["production", "run", "simulated", "test", "drill", "replay"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)


class Turn(NamedTuple):
    """One user message and all that followed until the next."""

    turn: Annotated[int, Column("number of the turn, from 1", json_as="index")]
    user_input: Annotated[str | None, Column("the user's message")]
    final_response: Annotated[str | None, Column("the agent's last text")]
    latency_s: Annotated[float | None, Column("duration of the topmost spans, overlaps counted once", "s")]
    start_ns: Annotated[int, _START]
    end_ns: Annotated[int, _END]
    trace_ids: Annotated[tuple[str, ...], Column("the traces that record it")]
    failed: Annotated[bool, Column("whether it ended in an error")] = False
    driven: Annotated[
        bool, Column("whether a run or a test asked it: a reply that is unknown is then none")
    ] = False
    raised: Annotated[
        str | None,
        Column("what the agent raised, of a turn that a run or a test asked, with the last line of its code"),
    ] = None
    calls_unknown: Annotated[
        str | None,
        Column("why it is not known what the agent called, of a turn that a run or a test asked"),
    ] = None
    calls_outside: Annotated[
        tuple[str, ...],
        Column("tools that were called outside the context of the turn that a run or a test asked"),
    ] = ()


class Step(NamedTuple):
    """An agent or a tool that started; the names of the steps, in order, are the trajectory."""

    position: Annotated[int, _POSITION]
    turn: Annotated[int | None, _TURN]
    kind: Annotated[Literal["agent", "tool"], Column("`agent` or `tool`")]
    name: Annotated[str, Column("name of the agent or tool")]
    start_ns: Annotated[int, _START]
    trace_id: Annotated[str, _TRACE]
    span_id: Annotated[str | None, _SPAN]


class ToolInteraction(NamedTuple):
    """One execution of one tool: its call and its result."""

    position: Annotated[int, _POSITION]
    turn: Annotated[int | None, _TURN]
    tool_name: Annotated[str, Column("name of the tool")]
    input_arguments: Annotated[Any, Column("arguments, usually an object", known_by="arguments_known")]
    output: Annotated[Any, Column("result", known_by="output_known")]
    arguments_known: Annotated[bool, _KNOWN]
    output_known: Annotated[bool, _KNOWN]
    ok: Annotated[bool | None, Column("whether it succeeded; unknown without a result or a sign of failure")]
    error: Annotated[str | None, Column("the failure's message")]
    call_id: Annotated[str | None, Column("id that the model gave the call")]
    agent: Annotated[str | None, _AGENT]
    handoff: Annotated[bool, Column("whether it only transfers control to another agent")]
    latency_s: Annotated[float | None, _LATENCY]
    start_ns: Annotated[int, _START]
    end_ns: Annotated[int, _END]
    trace_id: Annotated[str, _TRACE]
    span_id: Annotated[str | None, _SPAN]
    approval: Annotated[
        str | None,
        Column("`asked` if it waits for a person's approval, else `approved` or `rejected` where it did"),
    ] = None
    fault: Annotated[str | None, Column("what a drill made the call do: `fails`, `late` and the like")] = None
    provider: Annotated[bool, Column("whether the model's provider ran it, and no code of the agent")] = False
    arguments_removed: Annotated[bool, _REMOVED] = False

    @property
    def ran(self) -> bool:
        """Whether the tool may have run: it does not wait for approval, and was not rejected."""
        return self.approval in (None, "approved")


class RequestedCall(NamedTuple):
    """A tool call that a model requested and of which neither a span nor a result shows that it ran."""

    position: Annotated[int, _POSITION]
    turn: Annotated[int | None, _TURN]
    tool_name: Annotated[str, Column("name of the tool")]
    input_arguments: Annotated[Any, Column("arguments, usually an object", known_by="arguments_known")]
    arguments_known: Annotated[bool, _KNOWN]
    call_id: Annotated[str | None, Column("id that the model gave the call")]
    agent: Annotated[str | None, _AGENT]
    start_ns: Annotated[
        int,
        Column("when the model had requested it, UTC", "ns", shown_as="requested_at", json_as="requested_at"),
    ]
    trace_id: Annotated[str, _TRACE]
    span_id: Annotated[str | None, Column("the span of the model call")]
    arguments_removed: Annotated[bool, _REMOVED] = False


class PlannedCall(ToolInteraction):
    """A requested call that a grade counts as made; its span is that of the model call."""

    __slots__ = ()


class LLMCall(NamedTuple):
    """One call of a model."""

    position: Annotated[int, _POSITION]
    turn: Annotated[int | None, _TURN]
    agent: Annotated[str | None, _AGENT]
    provider: Annotated[str | None, Column("provider of the model")]
    model: Annotated[str | None, Column("model that answered, else the requested one")]
    input_tokens: Annotated[int | None, Column("input, cached and tool-use-prompt tokens included", "tokens")]
    output_tokens: Annotated[int | None, Column("output, reasoning included", "tokens")]
    cached_input_tokens: Annotated[int | None, Column("the part of the input read from a cache", "tokens")]
    reasoning_tokens: Annotated[int | None, Column("the part of the output that is reasoning", "tokens")]
    cost_usd: Annotated[float | None, Column("price of the tokens, by genai-prices", "USD")]
    latency_s: Annotated[float | None, _LATENCY]
    grounding_chunks: Annotated[int | None, Column("sources that the answer is grounded on")]
    code_executions: Annotated[int | None, Column("runs of code in the model's own sandbox")]
    start_ns: Annotated[int, _START]
    end_ns: Annotated[int, _END]
    trace_id: Annotated[str, _TRACE]
    span_id: Annotated[str, Column("the span that records it")]
    unanswered: Annotated[
        bool, Column("whether it failed before any output: it then has no tokens and costs nothing")
    ] = False
    cost_estimated: Annotated[
        bool, Column("whether the price is that of the model's name without its date or revision")
    ] = False
    cost_configured: Annotated[bool, Column("whether the price is one of the project's settings")] = False
    context_window: Annotated[
        int | None, Column("the most tokens that the model takes, by genai-prices", "tokens")
    ] = None
    doubtful_tokens: Annotated[
        bool,
        Column("whether counts are unknown that contradict each other, or do not tell what they include"),
    ] = False


class Error(NamedTuple):
    """A failure, where it began."""

    where: Annotated[str, Column("`tool NAME`, `agent NAME`, `llm MODEL`, `handoff AGENT` or `run SPAN`")]
    message: Annotated[str | None, Column("the failure's message")]
    trace_id: Annotated[str, _TRACE]
    span_id: Annotated[str | None, _SPAN]


class RecordedScore(NamedTuple):
    """A score in the session's traces: feedback of a user, the result of another evaluator."""

    name: Annotated[str, Column("what was evaluated")]
    value: Annotated[float | None, Column("the score as a number")]
    label: Annotated[str | None, Column("the score in words")]
    explanation: Annotated[str, Column("the reason for it")]
    author: Annotated[str | None, Column("who or what gave it")]
    turn: Annotated[int | None, Column("the turn that it is about; unknown for the session as a whole")]
    time_ns: Annotated[int, Column("when it was given, UTC", "ns", shown_as="scored_at", json_as="scored_at")]
    trace_id: Annotated[str | None, _TRACE]
    span_id: Annotated[str | None, Column("the span that it is about; unknown for the trace as a whole")]


class SimulatedMessage(NamedTuple):
    """One message of a simulated user, or its decision to end the conversation: not the agent's work."""

    turn: Annotated[int, Column("the turn that it begins; where it ends the conversation, the next number")]
    text: Annotated[str | None, Column("the message; unknown where the user said nothing")]
    source: Annotated[str, Column("`scenario` (its starting prompt), `model`, or `replay` of another run")]
    plan_part: Annotated[int | None, Column("the part of the plan that it is about, from 1; 0 for none")]
    ended: Annotated[
        str | None,
        Column("why the user ended the conversation: `plan_done`, `refused`, `handed_over`, `max_turns`"),
    ]
    why: Annotated[str | None, Column("the reason that the model gave")]
    error: Annotated[str | None, Column("why the model gave no message")]
    model: Annotated[str | None, Column("the model that played the user")]
    input_tokens: Annotated[int | None, Column("input tokens of its call", "tokens")]
    output_tokens: Annotated[int | None, Column("output tokens of its call", "tokens")]
    cost_usd: Annotated[float | None, Column("price of its call; 0 if the answer was cached", "USD")]
    latency_s: Annotated[float | None, _LATENCY]
    start_ns: Annotated[int, _START]
    trace_id: Annotated[str, _TRACE]
    span_id: Annotated[str, Column("the span that records it")]


class UnreadableSpan(NamedTuple):
    """A span that could not be read: what it records of the session is unknown."""

    dialect: Annotated[str, Column("the dialect that failed to read it")]
    error: Annotated[str, Column("the exception, in one line")]
    trace_id: Annotated[str, _TRACE]
    span_id: Annotated[str, Column("the span")]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the session's model calls, each call counted once."""

    llm_calls: Annotated[int | None, Column("number of model calls")] = None
    input_tokens: Annotated[
        int | None, Column("input, cached and tool-use-prompt tokens included", "tokens")
    ] = None
    output_tokens: Annotated[int | None, Column("output, reasoning included", "tokens")] = None
    cached_input_tokens: Annotated[
        int | None, Column("the part of the input read from a cache", "tokens")
    ] = None
    reasoning_tokens: Annotated[int | None, Column("the part of the output that is reasoning", "tokens")] = (
        None
    )
    complete: Annotated[
        bool,
        Column("whether every call that was answered recorded its tokens", shown_as="usage_complete"),
    ] = False


@dataclass(frozen=True, slots=True)
class Latency:
    """Where the time of the session's turns went; the user's thinking time is not in it."""

    total_s: Annotated[float | None, Column("sum of the turns", "s")] = None
    llm_s: Annotated[
        float | None, Column("in model calls, overlaps counted once, without what they enclose", "s")
    ] = None
    tool_s: Annotated[
        float | None, Column("in tools, overlaps counted once, without what they enclose", "s")
    ] = None
    framework_s: Annotated[float | None, Column("the rest of the total", "s")] = None
    first_response_s: Annotated[
        float | None, Column("from the start to the end of the first model call with a text", "s")
    ] = None


@dataclass(frozen=True, slots=True)
class Session:
    """What an agent did in one conversation.

    Tuples of records and the state variables are views of their own; where such a field has a `Column`, that
    is their number in the view `sessions`.
    """

    session_id: Annotated[str, Column("the conversation's id, or the trace's where none is recorded")]
    session_id_source: Annotated[
        Literal["conversation", "trace"], Column("`conversation` or `trace`: what has this id")
    ]
    question_id: Annotated[
        str | None, Column("id of the golden question that it answers, where a span has it")
    ]
    start_ns: Annotated[int | None, _START]
    turns: Annotated[tuple[Turn, ...], Column("number of turns")]
    trajectory: tuple[Step, ...]
    agents: Annotated[tuple[str, ...] | None, Column("names of the agents, by first start")]
    tool_interactions: Annotated[
        tuple[ToolInteraction, ...], Column("number of tool interactions", shown_as="tool_calls")
    ]
    handoffs: Annotated[
        tuple[tuple[str | None, str], ...] | None, Column("hand-offs, each [from, to], in order")
    ]
    state_variables: dict[str, Any] | None
    llm_calls: tuple[LLMCall, ...]
    usage: Usage
    models: Annotated[tuple[str, ...] | None, Column("the models that answered, by first call")]
    cost_usd: Annotated[float | None, Column("price of all model calls; unknown if one's is", "USD")]
    cost_unknown: Annotated[str | None, Column("the models without a known price")]
    latency: Latency
    errors: Annotated[tuple[Error, ...], Column("number of errors")]
    missing_spans: Annotated[
        int, Column("missing parents of recorded spans; above 0, not the whole session is recorded")
    ] = 0
    sampled: Annotated[bool, Column("whether traces of the session may have been sampled out")] = False
    sample_ratio: Annotated[
        float | None,
        Column("share of the sessions that `configure(sample=…)` records; unknown if it is not used"),
    ] = None
    agent_version: Annotated[
        str | None,
        Column("version of the first agent: `gen_ai.agent.version`, else `service.version`, else Langfuse's"),
    ] = None
    user_id: Annotated[str | None, Column("the first user: `user.id`, `enduser.id` and the like")] = None
    tags: Annotated[
        tuple[str, ...] | None, Column("tags of all spans: `spangrade.tags`, `tag.tags` and the like")
    ] = None
    environment: Annotated[
        str | None, Column("environment of the first span that names one: `deployment.environment.name`")
    ] = None
    unreadable_spans: Annotated[
        tuple[UnreadableSpan, ...],
        Column("number of spans that could not be read; above 0, not the whole session is known"),
    ] = ()
    not_understood: Annotated[
        int,
        Column(
            "number of spans that look like an agent's and that no dialect understood; above 0, not the "
            "whole session is known, and totals are unknown"
        ),
    ] = 0
    app_name: Annotated[
        str | None, Column("name of the app of Google ADK, where a record of the session has it")
    ] = None
    service_name: Annotated[
        str | None, Column("name of the service of the first span that has one: `service.name`")
    ] = None
    requested_calls: Annotated[
        tuple[RequestedCall, ...],
        Column("number of tool calls that were requested and perhaps not executed"),
    ] = ()
    cost_estimated: Annotated[
        str | None, Column("the models that are priced by their name without its date or revision")
    ] = None
    cost_configured: Annotated[str | None, Column("the models that are priced by the project's settings")] = (
        None
    )
    tool_declarations: Annotated[
        Any, Column("the tools that the models could call, in Gemini's form; unknown if none is recorded")
    ] = None
    declared_to: Annotated[
        tuple[tuple[str | None, str], ...] | None,
        Column(
            "the tools that each agent's models could call, each [agent, tool]; unknown if none is recorded"
        ),
    ] = None
    system_instruction: Annotated[str | None, Column("the models' instructions: the first of each agent")] = (
        None
    )
    recorded_scores: Annotated[
        tuple[RecordedScore, ...], Column("number of scores in its traces: of users, of other evaluators")
    ] = ()
    identity_doubt: Annotated[
        str | None,
        Column(
            "`continues` if it has no id and its first request repeats what no trace records: it may go on "
            "another session; `reused` if its id came again a day later and more, with nothing repeated"
        ),
    ] = None
    prompts: Annotated[
        tuple[str, ...] | None,
        Column("the prompts, by first use: `spangrade.prompt`, or `name@version` of a registry"),
    ] = None
    origin: Annotated[
        Origin,
        Column(
            "what made it: `production`, or by `spangrade run`: `run`, `simulated` (a simulated user), "
            "`drill` (faults of tools) and `replay`, or `test` by pytest; a tag `spangrade.origin=…` says so"
        ),
    ] = "production"
    origin_run: Annotated[
        str | None, Column("the run of `spangrade run` that made it: `NAME@` and 8 digits")
    ] = None
    simulated: Annotated[bool, Column("whether its user is simulated")] = False
    simulated_messages: Annotated[
        tuple[SimulatedMessage, ...], Column("number of messages and decisions of a simulated user")
    ] = ()
    state_spans: dict[str, Any] | None = None  # the id of the span that set each state variable last
    unfinished: Annotated[
        str | None,
        Column(
            "what a run saw begin and not end, or called outside its turns: agents, models and tools; and "
            "when the receiver was restarted, if that cut the session"
        ),
    ] = None
    assembly_error: Annotated[
        str | None, Column("why the session could not be assembled: nothing else of it is known then")
    ] = None
    # How many spans and logs its traces have, 0 if it was not read from a database.
    records: int = field(default=0, compare=False, repr=False)

    def __repr__(self) -> str:
        calls = "1 call" if len(self.tool_interactions) == 1 else f"{len(self.tool_interactions)} calls"
        turns = "1 turn" if len(self.turns) == 1 else f"{len(self.turns)} turns"
        agents = ", ".join(self.agents or ()) or "agents unknown"
        return f"<Session {self.session_id}: {turns}, {calls}, {agents}>"

    def _repr_html_(self) -> str | None:
        return notebook_html(self)

    @property
    def final_response(self) -> str | None:
        """The reply of its last turn; None if there is none, or it is not recorded."""
        return self.turns[-1].final_response if self.turns else None

    @property
    def calls_unknown(self) -> str | None:
        """Why it is not known what the agent called in some of the turns; None if it is."""
        for turn in self.turns:  # a loop: five metrics ask, and it is nearly always None
            if turn.calls_unknown:
                break
        else:
            return None
        unknown = [turn for turn in self.turns if turn.calls_unknown]
        numbers = ", ".join(str(turn.turn) for turn in unknown)
        return f"what turn {numbers} called is not recorded; {unknown[0].calls_unknown}"

    def calls_unknown_of(self, tools: Collection[str] | None = None) -> str | None:
        """Return why the number, the order and the arguments of the calls of tools are not known.

        None if they are. Without `tools`, all tools count.
        """
        for turn in self.turns:  # a loop: five metrics ask, and nearly always there is nothing
            if turn.calls_unknown or turn.calls_outside:
                break
        else:
            return None
        if (unknown := self.calls_unknown) is not None:
            return unknown
        outside = {
            tool: None
            for turn in self.turns
            for tool in turn.calls_outside
            if tools is None or plain_form(tool) in map(plain_form, tools)
        }
        return outside_text(outside) if outside else None

    @property
    def end_ns(self) -> int | None:
        """When the last of its turns, calls and model calls ended; None without any."""
        ends = [turn.end_ns for turn in self.turns]
        ends += [call.end_ns for call in self.tool_interactions]
        ends += [call.end_ns for call in self.llm_calls]
        return max(ends, default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the session as the JSON values that `spangrade show --format json` prints; None is unknown.

        Its fields have their names, and records the columns of their views. Times are ISO 8601 text, in UTC.
        """
        return {name: _json(value) for name, _, value in _named_values(self)}


class StateVariable(NamedTuple):
    """One variable of the session's state, as it was at the end."""

    name: Annotated[str, Column("name of the variable")]
    value: Annotated[Any, Column("its last value")]


def outside_text(tools: Iterable[str]) -> str:
    """Return what is not known of the calls of tools, of which some are outside of a turn's context."""
    return (
        "called outside the turn's context, as in a thread of its own, or recorded by a tracer provider that "
        f"is not the process's: {', '.join(tools)}"
    )


_EPOCH = datetime(1970, 1, 1)  # of a time in UTC without a zone, as in the views


def utc_text(time_ns: int) -> str:
    """Return a time in ns since the epoch as ISO 8601 text, in UTC without a zone, as the views show it."""
    return (_EPOCH + timedelta(microseconds=time_ns // 1000)).isoformat()


@cache
def _columns(record: type) -> list[tuple[str, Column]]:
    """Return the fields of a record type with what they mean; one without a `Column` is not shown."""
    hints = get_type_hints(record, include_extras=True).items()
    return [
        (name, get_args(hint)[1] if get_origin(hint) is Annotated else Column("", shown=False))
        for name, hint in hints
    ]


def _named_values(record: Any) -> Iterator[tuple[str, bool, Any]]:
    """Yield of each field of a record its name in JSON, whether it is shown, and its value."""
    for name, column in _columns(record.__class__):
        value = getattr(record, name)
        if column.unit == "ns" and value is not None:
            value = utc_text(value)
        yield column.json_as or name, column.shown, value


def _json(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, tuple) and any(hasattr(one, "_fields") for one in value):
        return [{name: cell for name, shown, cell in _named_values(one) if shown} for one in value]
    return list(value) if value == () else value
