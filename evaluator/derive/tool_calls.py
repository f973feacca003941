"""Tool interactions: a call and its result, from a tool's span, the model's messages, or both."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from spangrade.converters.spans.observation import (
    NO_TRAITS,
    Exchanging,
    Handoff,
    MessageCall,
    ModelCall,
    Observation,
    RunSpan,
    SpanFailure,
    SpanRef,
    ToolResult,
    ToolUse,
    Traits,
    TurnSpan,
)
from spangrade.converters.spans.outcomes import approval_of, failed_by_data
from spangrade.converters.spans.parts import is_answer, unwrapped
from spangrade.converters.spans.run_io import python_value
from spangrade.converters.spans.values import without_removed
from spangrade.evaluator.derive.handoffs import is_handoff
from spangrade.evaluator.derive.span_tree import Node, Tree, of_kind
from spangrade.evaluator.derive.timing import seconds
from spangrade.evaluator.derive.turns import Group
from spangrade.evaluator.session import RequestedCall, ToolInteraction
from spangrade.tracer import semconv
from spangrade.tracer.base.canonical_json import canonical

_OBJECT = re.compile(r'"\[?<[\w.]+ object at 0x[0-9a-f]+>\]?"')
# The repr of an object, or of a dict that cannot be read, that has a status.
_STATUS_IN_REPR = re.compile(
    r"(?:[A-Za-z_][\w.]*\(|\{['\"]|<[A-Za-z_][\w.]* )[^\n]{0,2000}?"
    r"\b(?:status|success|ok|error|is_?error)['\"]?\s?[=:]",
    re.IGNORECASE,
)
# What clients of the Model Context Protocol make of an error's text, without its mark.
_OF_PROTOCOL = re.compile(
    r"(?:Error (?:executing|calling) tool|MCP error|Unknown tool:|Input validation error)\b"
)
# How the text of an error begins, where servers mark it in a way that spans of the protocol do not record.
_MAY_BE_ERROR = re.compile(r"(?:\w*(?:Error|Exception)|Fail(?:ed|ure)|Traceback)\b", re.IGNORECASE)
# A message that is only a code: an `error.type`, the name of a class, a number.
_CODE = re.compile(r"[A-Za-z0-9_.:$-]+")
_HANDED_OVER = re.compile(r'\{"assistant":"[^"]*"\}')  # what the OpenAI Agents SDK returns of a hand-off
_NO_MORE = re.compile(r"[\W_]*(?:(?:error|exception|fail(?:ed|ure))[\W_]*)*", re.IGNORECASE)
_MAY_BE_REMOVED = re.compile(r'"[\[<(*_rR]')  # a text that begins as a mask does
_ERROR_KEYS = ("error_message", "error", "message", "detail")
_SUCCEEDED: Traits = frozenset({"succeeded"})
_APPROVED: Traits = frozenset({"approved"})
_DOUBTFUL: Traits = frozenset({"doubtful_outcome"})
_OF_PROVIDER: Traits = frozenset({"of_provider"})
_ONLY_REQUESTED: Traits = frozenset({"only_requested"})


def calls_by_turn(groups: Sequence[Group], tree: Tree) -> tuple[list[tuple[int, ToolUse]], set[int]]:
    """Return the calls of tools as (turn, call), in order within each turn, and the turns that lack some.

    A call is recorded by a span, completed from messages, or by messages alone: a model's request, or what a
    later history has of one that nothing else records, and the result in a later one. One without a result
    was requested and perhaps not executed. A turn with the result of a call that has no name lacks that call.
    """
    calls = _Calls()
    lacking: set[int] = set()
    earlier: set[str | None] = set()  # the ids of the calls of the turns before
    for turn, group in enumerate(groups, 1):
        calls.answer(group)
        llm_calls = [o if o.agent else o._replace(agent=tree.agent_of(o)) for o in group.calls]
        with_spans = group.tools
        requests = _requests_with_spans(with_spans, tree) if len(with_spans) > 1 else {}
        if requests:
            with_spans = [o for o in with_spans if o.span.node not in requests]
            llm_calls = _with_requests(llm_calls, requests.values(), tree)
        alone = not group.calls and not group.tools
        requested = calls_from_messages(with_messages_of_runs(llm_calls, group.members, alone=alone), earlier)
        unmatched = UnmatchedCalls(requested)
        tools = list(completed(with_spans, unmatched, tree))
        rest = unmatched.rest()
        handoffs = 0
        if tree.index.handoffs:
            handoffs = sum(bool(handoff.handoff_to) for handoff in of_kind(Handoff, group.members))
        if sum(_is_lost(one, tools) for one in rest) > handoffs:  # a hand-off may have a result, too
            lacking.add(turn)
        # A hand-off that has a span of its own is not a tool's call beside it.
        transferred = handoffs > 0
        from_messages = [
            o
            for o in _from_messages(
                r for r in rest if alone or r.in_history or isinstance(r.requested_by, ModelCall)
            )
            if not (is_handoff(o.name or "") and (transferred or "only_requested" in o.traits))
        ]
        if from_messages:
            tools = (
                sorted([*tools, *from_messages], key=attrgetter("span.start_ns")) if tools else from_messages
            )
        calls.add(turn, tools, requested)
        earlier.update(o.call_id for o in tools)
        earlier.update(one.call.other_id for one in requested)
    return calls.known(), lacking


class _Calls:
    """The calls of all turns, and what later turns record of them: a result beside the user's next message.

    A call without a result gets the one of its id, or of its name in the next message if the result names no
    id. One that was only requested is the call of its id that a span of a later turn executes.
    """

    def __init__(self) -> None:
        self._calls: list[tuple[int, ToolUse] | None] = []
        self._open: dict[str, int] = {}  # by id, the places of the calls without a result
        self._last: Sequence[int] = ()

    def known(self) -> list[tuple[int, ToolUse]]:
        """Return the calls as (turn, call)."""
        return [one for one in self._calls if one is not None]

    def add(self, turn: int, tools: Sequence[ToolUse], requested: Sequence[ModelRequest]) -> None:
        """Add the calls of the next turn."""
        first = len(self._calls)
        self._calls += [(turn, tool) for tool in tools]
        self._last = [place for place, tool in enumerate(tools, first) if _is_open(tool)]
        if not self._last:
            return
        others = {one.call.call_id: one.call.other_id for one in requested if one.call.other_id}
        for place in self._last:
            call_id = tools[place - first].call_id
            self._open.update((one, place) for one in (call_id, others.get(call_id)) if one)

    def answer(self, group: Group) -> None:
        """Join what a turn records of the calls of the turns before."""
        if not self._last and not self._open:
            return
        for o in group.exchanging:
            for call in o.exchange.tool_calls:  # a call of its own under an id that came before
                self._open.pop(call.call_id or "", None)
        for tool in group.tools:
            place = self._open.get(tool.call_id or "")
            before = None if place is None else self._calls[place]
            if place is not None and before and "only_requested" in before[1].traits:
                self._calls[place] = None
        for number, o in enumerate(group.exchanging):
            for result in o.exchange.tool_results:
                place = self._open.get(result.call_id or "")
                if place is None and number == 0 and result.call_id is None:
                    place = next((one for one in self._last if self._has_name(one, result.name)), None)
                if place is not None:
                    self._answer(place, result, o)
        self._last = ()

    def _has_name(self, place: int, name: str | None) -> bool:
        one = self._calls[place]
        return one is not None and _is_open(one[1]) and name in (None, one[1].name)

    def _answer(self, place: int, result: ToolResult, by: Exchanging) -> None:
        one = self._calls[place]
        if one is None or not _is_open(one[1]):
            return
        turn, tool = one
        call = MessageCall(tool.name, tool.call_id, None)
        traits = ModelRequest(call, by, None, None).answered(result, by).traits
        self._calls[place] = (
            turn,
            tool._replace(
                span=tool.span if tool.span.span_id else tool.span._replace(end_ns=by.span.start_ns),
                result=result.result,
                failure=SpanFailure() if result.failed else None,
                traits=(tool.traits - _ONLY_REQUESTED) | traits,
            ),
        )


def _is_open(tool: ToolUse) -> bool:
    """Return whether nothing that is recorded of a call says how it ended."""
    return tool.result is None and tool.failure is None and "succeeded" not in tool.traits


def _is_lost(request: ModelRequest, tools: Sequence[ToolUse]) -> bool:
    """Return whether a result of a call without a name is of none of these calls, under another id."""
    if request.call.name is not None or not request.in_history:
        return False
    result = request.result
    if result is not None and _HANDED_OVER.fullmatch(result):
        return False
    return not any(result is None or tool.result in (None, result) for tool in tools)


def _requests_with_spans(tools: Sequence[ToolUse], tree: Tree) -> Mapping[Node, ToolUse]:
    """Return the spans that stand for a model's request of a call which another span then executes.

    They are inside the model call and have the id of the call and no result (AgentOps); the span that
    executes it comes after the model call and has no id.
    """
    requests: dict[Node, ToolUse] = {}
    executed = [tool for tool in tools if tool.call_id is None]
    for tool in tools:
        if not executed or tool.call_id is None or tool.result is not None or tool.failure:
            continue
        around = tree.parent(tool)
        if not isinstance(around, ModelCall):
            continue
        end_ns = around.span.end_ns
        following = (one for one in executed if one.name == tool.name and one.span.start_ns >= end_ns)
        if (execution := next(following, None)) is not None:
            executed.remove(execution)
            requests[tool.span.node] = tool
    return requests


def _with_requests(
    llm_calls: Iterable[ModelCall], requests: Iterable[ToolUse], tree: Tree
) -> list[ModelCall]:
    """Return model calls with the calls that spans inside them stand for, where their messages lack these."""
    calls: dict[Node, list[MessageCall]] = {}
    for tool in requests:
        if (around := tree.parent(tool)) is not None:
            call = MessageCall(tool.name, tool.call_id, tool.arguments)
            calls.setdefault(around.span.node, []).append(call)
    return [
        o._replace(exchange=o.exchange._replace(tool_calls=tuple(calls[o.span.node])))
        if o.span.node in calls and not o.exchange.tool_calls
        else o
        for o in llm_calls
    ]


def calls_from_messages(
    llm_calls: Sequence[Exchanging], earlier: Collection[str | None] = ()
) -> list[ModelRequest]:
    """Return the tool calls in the messages of one turn's model calls, each with its result.

    History repeats every earlier call and result: only what is new in each model call is read, and what no
    model call of the turn, and none of those with the ids `earlier`, is known to have requested. Results are
    joined by call id, else by name, in order.
    """
    requests = _Requests(earlier)
    for llm_call in llm_calls:
        requests.complete(llm_call)
        requests.answer_all(llm_call)
        requests.add_all(llm_call)
    return requests.requested


class _Requests:
    """The calls that the models of one turn requested so far."""

    def __init__(self, earlier: Collection[str | None]) -> None:
        self.requested: list[ModelRequest] = []
        self._earlier = earlier
        self._by_id: dict[str, deque[int]] = {}
        self._by_name: dict[str | None, deque[int]] = {}
        self._in_order: deque[int] = deque()
        self._last_by_agent: dict[str | None, tuple[Exchanging, range]] = {}
        self._answered: dict[str | None, int] = {}
        self._repeated: set[str] = set()  # the ids of calls that a history repeated
        self._reported: dict[str, int] = {}  # by call id, how many results a history had at most

    def add_all(self, llm_call: Exchanging) -> None:
        """Add the calls that a model call requests."""
        first = len(self.requested)
        for call in llm_call.exchange.tool_calls:
            self._add(call, llm_call)
        before = self._last_by_agent.get(llm_call.agent)
        if before is None or llm_call.failure is None or self.requested[first:] or llm_call.exchange.response:
            self._last_by_agent[llm_call.agent] = (llm_call, range(first, len(self.requested)))

    def answer_all(self, llm_call: Exchanging) -> None:
        """Join the results in a model call's request, each once."""
        if not llm_call.exchange.tool_results:
            return
        reported: dict[str, int] = {}
        for result in llm_call.exchange.tool_results:
            if result.call_id is None:
                self._answer(result, llm_call)
                continue
            times = reported[result.call_id] = reported.get(result.call_id, 0) + 1
            if self._takes_up(result, llm_call):
                continue
            if times > 1 and self._unanswered(self._by_id.get(result.call_id)) is None:
                self._mark(result)  # in another form too, which may have the mark of a failure
            elif times > self._reported.get(result.call_id, 0):
                self._answer(result, llm_call)
        for call_id, times in reported.items():
            self._reported[call_id] = max(times, self._reported.get(call_id, 0))

    def _takes_up(self, result: ToolResult, by: Exchanging) -> bool:
        """Join a result to the call of its id that waited for a person until then."""
        number = self._answered.get(result.call_id)
        before = None if number is None else self.requested[number].result
        if number is None or before in (None, result.result):
            return False
        if approval_of(json_or_none(before)) != "asked":
            return False
        self.requested[number] = self.requested[number].answered(result, by)._replace(approved=True)
        return True

    def _mark(self, result: ToolResult) -> None:
        number = self._answered.get(result.call_id)
        if number is not None and self.requested[number].failed is None:
            marked = self.requested[number]._replace(failed=result.failed, doubtful=result.doubtful)
            self.requested[number] = marked

    def _answer(self, result: ToolResult, reported_by: Exchanging) -> None:
        """Join a result to the first call without one that has its id, else its name, else comes first."""
        i = self._unanswered(self._by_id.get(result.call_id)) if result.call_id else None
        if i is None and not (result.call_id and self._by_id):
            i = self._unanswered(self._by_name.get(result.name) if result.name else self._in_order)
        if i is not None:
            self._answered[result.call_id] = i
            self.requested[i] = self.requested[i].answered(result, reported_by)
        elif result.call_id and result.call_id not in self._by_id and result.call_id not in self._earlier:
            call = MessageCall(result.name, result.call_id, None)
            self._add(call, reported_by, in_history=True)
            self.requested[-1] = self.requested[-1].answered(result, reported_by)

    def complete(self, by: Exchanging) -> None:
        """Take from a request's history the fields, and the calls, that the model calls before it lack."""
        before = self._last_by_agent.get(by.agent)
        repeated = by.exchange.repeated_calls
        calls = [call for call in repeated if call.name and call.call_id not in self._repeated]
        self._repeated.update(call.call_id for call in calls if call.call_id)
        if all(call.call_id in self._by_id for call in calls):
            return
        if before is None:
            for call in calls:
                if call.call_id not in self._earlier and not self._is_known(call):
                    self._add(call, by, in_history=True)
            return
        llm_call, numbers = before
        calls = [call for call in calls if not self._is_of_another(call, numbers)]
        self._forget_joined(numbers, calls)
        left = list(numbers)
        for call in calls:
            known = [n for n in left if self.requested[n].call.name == call.name]
            if known:
                same = next((n for n in known if self.requested[n].call.call_id == call.call_id), known[0])
                left.remove(same)
                self._identify(same, call.call_id)
            elif call.call_id not in self._by_id:
                self._add(call, llm_call, in_history=True)

    def _is_known(self, call: MessageCall) -> bool:
        """Return whether a call of a history is one that a model requested, perhaps under another id."""
        return call.call_id in self._by_id or any(
            self.requested[number].call.arguments in (None, call.arguments) or call.arguments is None
            for number in self._by_name.get(call.name, ())
        )

    def _is_of_another(self, call: MessageCall, numbers: range) -> bool:
        """Return whether a call is one that an earlier model call made than that of these requests."""
        of_these = (self.requested[number].call.call_id for number in numbers)
        return call.call_id in self._by_id and call.call_id not in of_these

    def _forget_joined(self, numbers: Iterable[int], calls: Sequence[MessageCall]) -> None:
        """Take the names from parallel calls that were streamed as one, now that history shows each."""
        joined = "".join(call.name or "" for call in calls)
        for number in numbers:
            if len(calls) > 1 and self.requested[number].call.name == joined:
                self.requested[number] = self.requested[number]._replace(call=MessageCall(None, None, None))

    def _identify(self, number: int, call_id: str | None) -> None:
        """Note the id that history gives a call; the call has it if it had none."""
        call = self.requested[number].call
        if call_id and call.call_id != call_id:
            named = call._replace(call_id=call.call_id or call_id)
            self.requested[number] = self.requested[number]._replace(call=named)
            self._by_id.setdefault(call_id, deque()).append(number)

    def _add(self, call: MessageCall, llm_call: Exchanging, *, in_history: bool = False) -> None:
        number = len(self.requested)
        for call_id in (call.call_id, call.other_id):
            if call_id:
                self._by_id.setdefault(call_id, deque()).append(number)
        self._by_name.setdefault(call.name, deque()).append(number)
        self._in_order.append(number)
        request = ModelRequest(call, llm_call, None, None, in_history=in_history)
        self.requested.append(request if call.result is None else request.answered(call.result, llm_call))

    def _unanswered(self, numbers: deque[int] | None) -> int | None:
        while numbers and self.requested[numbers[0]].reported_by is not None:
            numbers.popleft()
        return numbers[0] if numbers else None


def completed(tools: Sequence[ToolUse], unmatched: UnmatchedCalls, tree: Tree) -> Iterator[ToolUse]:
    """Yield one turn's tool spans with the messages' name, agent, call id, arguments and result.

    Arguments that are not an object are one argument's value; its name is in the messages.
    """
    matches = [unmatched.pop(tool) for tool in tools]
    for number, tool in enumerate(tools):
        match = matches[number] or unmatched.pop_similar(tool)
        is_object = tool.arguments is not None and tool.arguments.startswith("{")
        if match is None:
            known = tool._replace(result=None) if _is_object(tool.result) else tool
            yield known if is_object else known._replace(arguments=None)
            continue
        yield tool._replace(
            name=tool.name or match.call.name,
            agent=tree.agent_of(tool) or match.requested_by.agent,
            call_id=tool.call_id or match.call.call_id,
            arguments=tool.arguments if is_object else match.call.arguments,
            result=match.result if _is_object(tool.result) else tool.result or match.result,
            failure=tool.failure or (SpanFailure() if match.failed else None),
            traits=tool.traits | match.traits,
        )


def _is_object(result: str | None) -> bool:
    """Return whether a result is Python's repr of an object or of a list of one: it tells nothing."""
    return result is not None and _OBJECT.fullmatch(result) is not None


def _from_messages(requested: Iterable[ModelRequest]) -> Iterator[ToolUse]:
    """Yield each requested call that no span executes; one without a result ends when it was requested."""
    for item in requested:
        name = item.call.name
        if name is None or is_answer(name):
            continue
        by = item.requested_by
        reported = item.reported_by
        end_ns = by.span.end_ns if reported is None or reported is by else reported.span.start_ns
        only_requested = reported is None and not item.call.by_provider
        yield ToolUse(
            SpanRef(by.span.trace_id, "", by.span.span_id, by.span.end_ns, end_ns),
            agent=by.agent,
            failure=SpanFailure() if item.failed else None,
            traits=item.traits | _ONLY_REQUESTED if only_requested else item.traits,
            name=name,
            call_id=item.call.call_id,
            arguments=item.call.arguments,
            result=item.result,
        )


def tool_interaction(
    position: int, turn: int, tool: ToolUse, tree: Tree, *, has_agents: bool
) -> ToolInteraction:
    """Return the interaction that a call of a tool is."""
    span, name = tool.span, tool.name or ""
    output = json_or_none(tool.result)
    arguments, removed = _arguments(tool.arguments)
    ok, error = ok_and_error(tool, output)
    approval = approval_of(output) or ("approved" if "approved" in tool.traits else None)
    if "interrupted" in tool.traits and tool.result is None:
        approval = "asked"
    if approval in {"asked", "rejected"}:  # the tool did neither succeed nor fail
        ok, error = None, None
    return ToolInteraction(
        position=position,
        turn=turn,
        tool_name=name,
        input_arguments=arguments,
        output=output,
        arguments_known=tool.arguments is not None,
        output_known=tool.result is not None,
        ok=ok,
        error=error,
        call_id=tool.call_id,
        agent=tree.agent_of(tool),
        handoff=has_agents and (tool.handoff_to is not None or is_handoff(name)),
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        latency_s=seconds(span.start_ns, span.end_ns) if span.span_id and span.timed else None,
        trace_id=span.trace_id,
        span_id=None if span.scope == semconv.SCOPE_OF_MESSAGES else span.span_id or None,
        approval=approval,
        fault=tool.fault,
        provider="of_provider" in tool.traits,
        arguments_removed=removed,
    )


def requested_call(position: int, turn: int, tool: ToolUse) -> RequestedCall:
    """Return the call that is only requested."""
    arguments, removed = _arguments(tool.arguments)
    return RequestedCall(
        position=position,
        turn=turn,
        tool_name=tool.name or "",
        input_arguments=arguments,
        arguments_known=tool.arguments is not None,
        call_id=tool.call_id,
        agent=tool.agent,
        start_ns=tool.span.start_ns,
        trace_id=tool.span.trace_id,
        span_id=tool.span.parent_span_id,
        arguments_removed=removed,
    )


def ok_and_error(tool: ToolUse, result: Any) -> tuple[bool | None, str | None]:
    """Return whether a tool call with a result (its JSON value) succeeded, None if unknown, and its error.

    Frameworks record a failure in different places: on the span, or in the result's structure
    (`{"status": "error"}`, a truthy `"error"`, `"isError"`, a `"success"` or `"ok"` of false). No words in a
    text decide: a text that only messages have, or an object's repr with a status in it, may be a failure's
    as well as an answer's.
    """
    result = python_value(result)
    failed = tool.failure is not None or failed_by_data(result)
    if failed:
        own = tool.failure.error if tool.failure else None
        if own is None or _CODE.fullmatch(own):
            said = _error_in(result)
            own = said if own is None or (said and _says_more(said, own)) else own
        return False, own
    if "doubtful_outcome" in tool.traits:
        return None, None
    if "succeeded" in tool.traits:
        return True, None
    if tool.result is None or ((result is None or isinstance(result, str)) and not tool.span.span_id):
        return None, None
    said = _text_of_protocol(result) if "of_protocol" in tool.traits else None
    if said is not None and _MAY_BE_ERROR.match(said):
        return None, None
    if isinstance(result, str) and (_STATUS_IN_REPR.match(result) or _OF_PROTOCOL.match(result)):
        return None, None
    return True, None


def _says_more(said: str, code: str) -> bool:
    """Return whether a text says more than a code, such as `Error: TimeoutError` does not."""
    return not _CODE.fullmatch(said) and not _NO_MORE.fullmatch(said.replace(code, ""))


def _text_of_protocol(result: Any) -> str | None:
    """Return the text of a result of the protocol that no mark says is one of a success."""
    if isinstance(result, dict):
        if {"isError", "is_error"} & result.keys():
            return None
        result = unwrapped(result.get("content"))
    return result if isinstance(result, str) else None


def _error_in(result: Any) -> str | None:
    """Return the message of a failure in a call's result, a code only without another; None without any."""
    if isinstance(result, dict):
        values = [result[key] for key in _ERROR_KEYS if result.get(key)]
        inner = [_error_in(value) if isinstance(value, dict) else None for value in values]
        said = [one or str(value) for one, value in zip(inner, values, strict=True) if value is not True]
        if not said and isinstance(text := unwrapped(result.get("content")), str):
            said = [text]
        return next((one for one in said if not _CODE.fullmatch(one)), said[0] if said else None)
    return result if isinstance(result, str) else None


def _arguments(text: str | None) -> tuple[Any, bool]:
    """Return a call's arguments, with null for each value that was removed, and whether there are such."""
    value = json_or_none(text)
    if text is None or _MAY_BE_REMOVED.search(text) is None:
        return value, False
    kept = without_removed(value)
    return kept, kept != value


def json_or_none(text: str | None) -> Any:
    """Return the value of a JSON text; None for None."""
    return None if text is None else orjson.loads(text)


def with_messages_of_runs(
    model_calls: Sequence[ModelCall], members: Sequence[Observation], *, alone: bool = False
) -> list[Exchanging]:
    """Return one turn's model calls, and after them in time what runs among `members` record besides.

    A run's tool calls, which only complete the spans of tools, count where no model call records any, each
    call id once; its results always. Those of an agent tell which agent made a call that something else ran;
    where runs are `alone`, in a turn without spans of models and tools, they are its calls.
    """
    by_models = any(call.exchange.tool_calls for call in model_calls)
    runs: list[RunSpan | TurnSpan] = []
    of_agents: list[RunSpan] = []
    for o in members:
        if isinstance(o, RunSpan) and o.is_agent and not alone:
            if o.exchange.tool_calls and not by_models:
                of_agents.append(o._replace(exchange=o.exchange._replace(tool_results=())))
        elif isinstance(o, RunSpan | TurnSpan) and (o.exchange.tool_calls or o.exchange.tool_results):
            runs.append(o)
    recorded: list[Exchanging] = list(model_calls)
    known: set[str | tuple[str | None, str | None]] = set()
    for run in [*runs, *of_agents]:
        exchange = run.exchange
        keys = [
            call.call_id or ((call.name, call.arguments) if alone else "") for call in exchange.tool_calls
        ]
        with_keys = zip(exchange.tool_calls, keys, strict=True)
        calls = [call for call, key in with_keys if key and key not in known and not by_models]
        known.update(keys)
        if calls:
            own = exchange._replace(tool_calls=tuple(calls), tool_results=())
            recorded.append(run._replace(exchange=own))
        if exchange.tool_results:
            recorded.append(run._replace(exchange=exchange._replace(tool_calls=())))
    return sorted(recorded, key=lambda o: o.span.start_ns) if runs or of_agents else recorded


_MOST_CANDIDATES = 100  # calls of one name that a span is compared with


class ModelRequest(NamedTuple):
    """A call that a model requested, and the result that a later request of a model reports.

    `failed` is what that request marks the result as, None if it does not; see `ToolResult`. A call that is
    `in_history` has no model call that is known to have requested it, but one that repeats it or its result.
    """

    call: MessageCall
    requested_by: Exchanging
    result: str | None
    reported_by: Exchanging | None
    failed: bool | None = None
    doubtful: bool = False
    in_history: bool = False
    approved: bool = False

    def answered(self, result: ToolResult, reported_by: Exchanging) -> ModelRequest:
        """Return the request with its result."""
        return self._replace(
            result=result.result, reported_by=reported_by, failed=result.failed, doubtful=result.doubtful
        )

    @property
    def traits(self) -> Traits:
        """What is peculiar to the call by its messages."""
        traits = _OF_PROVIDER if self.call.by_provider else NO_TRAITS
        if self.approved:
            traits |= _APPROVED
        if self.failed is False:
            return traits | _SUCCEEDED
        return traits | _DOUBTFUL if self.doubtful else traits


class UnmatchedCalls:
    """The requested calls of one turn that no span is matched with yet."""

    def __init__(self, requested: Sequence[ModelRequest]) -> None:
        self._requested = requested
        self._matched = [False] * len(requested)
        self._by_id: dict[str | None, deque[int]] = {}
        for number, item in enumerate(requested):
            self._by_id.setdefault(item.call.call_id, deque()).append(number)
            if item.call.other_id:
                self._by_id.setdefault(item.call.other_id, deque()).append(number)

    @cached_property
    def _by_content(self) -> Mapping[tuple[str | None, ...], deque[int]]:
        """The calls by name, by arguments and by both, for the spans without the id of a call."""
        numbers: dict[tuple[str | None, ...], deque[int]] = {}
        for number, item in enumerate(self._requested):
            call = item.call
            keys = [("name", call.name), ("arguments", call.arguments)]
            both = [(form, call.name, text) for form, text in _arguments_of_spans(call.arguments)]
            for key in (*keys, *both):
                numbers.setdefault(key, deque()).append(number)
        return numbers

    def pop(self, tool: ToolUse) -> ModelRequest | None:
        """Return the call that a span executes, which no other span is then matched with.

        Without an id it is one of the last model call that asked for such a tool before the span began.
        """
        if tool.call_id:
            number = self._first(self._by_id.get(tool.call_id))
        else:
            forms = ("object",) if (tool.arguments or "").startswith("{") else ("object", "value")
            start_ns = tool.span.start_ns
            same = [
                self._last_asked(self._by_content.get((form, tool.name, tool.arguments)), start_ns)
                for form in forms
            ]
            number = min((one for one in same if one is not None), default=None)
            if number is None and tool.arguments is None:
                number = self._last_asked(self._by_content.get(("name", tool.name)), start_ns)
        if number is None:
            return None
        self._matched[number] = True
        return self._requested[number]

    def pop_similar(self, tool: ToolUse) -> ModelRequest | None:
        """Return the first call that a span executes if no call has its id, or its very arguments.

        Frameworks add arguments (a context) and convert values. Two call ids that differ are two calls unless
        name and arguments are the same: a framework may give a call an id of its own.
        """
        same_name: Iterable[int] = self._by_content.get(("name", tool.name), ())
        last = self._last_asked(self._by_content.get(("name", tool.name)), tool.span.start_ns)
        if last is not None and not tool.call_id:
            same_name = (last, *islice(same_name, _MOST_CANDIDATES))
        same_arguments = self._by_content.get(("arguments", tool.arguments), ()) if tool.arguments else ()
        for number in islice(chain(same_name, same_arguments), _MOST_CANDIDATES):
            call = self._requested[number].call
            same = (tool.name, tool.arguments) == (call.name, call.arguments)
            if self._matched[number] or (tool.call_id and call.call_id and not same):
                continue
            if tool.name is None or _is_same_name(tool.name, call.name):
                self._matched[number] = True
                return self._requested[number]
        return None

    def rest(self) -> list[ModelRequest]:
        """Return the calls that no span is matched with."""
        return [item for number, item in enumerate(self._requested) if not self._matched[number]]

    def _last_asked(self, numbers: deque[int] | None, start_ns: int) -> int | None:
        """Return the first call, of these, of the last model call that began before a time.

        That model call may have ended then, or enclose what runs the tool. Without one, it is the first call.
        """
        while numbers and self._matched[numbers[-1]]:
            numbers.pop()
        found: int | None = None
        asking = None
        for number in islice(reversed(numbers or ()), _MOST_CANDIDATES):
            by = self._requested[number].requested_by.span
            if self._matched[number] or by.start_ns > start_ns:
                continue
            if asking not in (None, by.node):
                break
            found, asking = number, by.node
        return self._first(numbers) if found is None else found

    def _first(self, numbers: deque[int] | None) -> int | None:
        while numbers and self._matched[numbers[0]]:
            numbers.popleft()
        return numbers[0] if numbers else None


def _is_same_name(one: str | None, other: str | None) -> bool:
    """Return whether one name is the other with a prefix: a server's, or a client's (`mcp__shop__cart`)."""
    return bool(one and other) and (str(one).endswith(str(other)) or str(other).endswith(str(one)))


def _arguments_of_spans(requested: str | None) -> Iterator[tuple[str, str | None]]:
    """Yield the arguments that a span of a requested call may have, as (form, text).

    The form is "value" if the text is the value of the only argument. A bare 42 may stand for the text "42".
    """
    yield "object", requested
    value = None if requested is None else orjson.loads(requested)
    if isinstance(value, str):
        yield "object", value
    elif requested is None:
        yield "object", "null"
    elif isinstance(value, dict) and len(value) == 1:
        (argument,) = value.values()
        yield "value", canonical(argument)
        if isinstance(argument, str):
            yield "value", argument
