"""Tool interactions: a call and its result, from a tool's span, the model's messages, or both."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from spangrade.converters.spans.approvals import approval_of
from spangrade.converters.spans.observation import MessageCall, Observation, ToolResult
from spangrade.converters.spans.run_io import python_value
from spangrade.evaluator.derive.handoffs import is_handoff
from spangrade.evaluator.derive.run_messages import with_messages_of_runs
from spangrade.evaluator.derive.span_tree import Node, Tree, node_of
from spangrade.evaluator.derive.timing import seconds
from spangrade.evaluator.derive.turns import Group
from spangrade.evaluator.derive.unmatched_calls import ModelRequest, UnmatchedCalls
from spangrade.evaluator.session import RequestedCall, ToolInteraction

_FAILED = frozenset({"error", "failed", "failure"})
_OBJECT = re.compile(r'"\[?<[\w.]+ object at 0x[0-9a-f]+>\]?"')
# The repr of an object, or of a dict that cannot be read, that has a status.
_STATUS_IN_REPR = re.compile(
    r"(?:[A-Za-z_][\w.]*\(|\{['\"]|<[A-Za-z_][\w.]* )[^\n]{0,2000}?"
    r"\b(?:status|success|ok|error|is_?error)['\"]?\s?[=:]",
    re.IGNORECASE,
)
# Calls by which a model gives its answer, which run nothing.
_ANSWERS = ("final_answer", "final_result")


def tool_observations(groups: Sequence[Group], tree: Tree) -> list[tuple[int, Observation]]:
    """Return the calls of tools as (turn, observation), in order within each turn.

    A call is recorded by a span, completed from messages, or by messages alone: a model's request and the
    result in a later one. One without a result was requested and perhaps not executed.
    """
    result: list[tuple[int, Observation]] = []
    for turn, group in enumerate(groups, 1):
        llm_calls = [o if o.agent else o._replace(agent=tree.agent_of(o)) for o in group.calls]
        spans = [o for o in group.members if o.kind == "tool"]
        requests = _requests_with_spans(spans, tree) if len(spans) > 1 else {}
        if requests:
            spans = [o for o in spans if node_of(o) not in requests]
            llm_calls = _with_requests(llm_calls, requests.values(), tree)
        requested = calls_from_messages(with_messages_of_runs(llm_calls, group.members))
        unmatched = UnmatchedCalls(requested)
        tools = list(completed(spans, unmatched, tree))
        # A hand-off that has a span of its own is not a tool's call beside it.
        transferred = any(o.kind == "handoff" and o.handoff_to for o in group.members)
        from_messages = [
            o
            for o in observations_of(item for item in unmatched.rest() if item.requested_by.kind == "llm")
            if not (is_handoff(o.name or "") and (transferred or o.only_requested))
        ]
        if from_messages:
            tools = sorted([*tools, *from_messages], key=lambda o: o.start_ns) if tools else from_messages
        result += [(turn, o) for o in tools]
    return result


def _requests_with_spans(spans: Sequence[Observation], tree: Tree) -> Mapping[Node, Observation]:
    """Return the spans that stand for a model's request of a call which another span then executes.

    They are inside the model call and have the id of the call and no result (AgentOps); the span that
    executes it comes after the model call and has no id.
    """
    requests: dict[Node, Observation] = {}
    executed = [o for o in spans if o.call_id is None]
    for span in spans:
        if not executed or span.call_id is None or span.result is not None or span.failed:
            continue
        around = tree.parent(span)
        if around is None or around.kind != "llm":
            continue
        following = (o for o in executed if o.name == span.name and o.start_ns >= around.end_ns)
        if (execution := next(following, None)) is not None:
            executed.remove(execution)
            requests[node_of(span)] = span
    return requests


def _with_requests(
    llm_calls: Iterable[Observation], requests: Iterable[Observation], tree: Tree
) -> list[Observation]:
    """Return model calls with the calls that spans inside them stand for, where their messages lack these."""
    calls: dict[Node, list[MessageCall]] = {}
    for span in requests:
        if (around := tree.parent(span)) is not None:
            calls.setdefault(node_of(around), []).append(MessageCall(span.name, span.call_id, span.arguments))
    return [
        o._replace(tool_calls=tuple(calls[node_of(o)])) if node_of(o) in calls and not o.tool_calls else o
        for o in llm_calls
    ]


def calls_from_messages(llm_calls: Sequence[Observation]) -> list[ModelRequest]:
    """Return the tool calls in the messages of one turn's model calls, each with its result.

    History repeats every earlier call and result: only what is new in each model call is read. Results are
    joined by call id, else by name, in order.
    """
    requests = _Requests()
    for llm_call in llm_calls:
        requests.complete(llm_call.repeated_calls, llm_call.agent)
        requests.answer_all(llm_call)
        requests.add_all(llm_call)
    return requests.requested


class _Requests:
    """The calls that the models of one turn requested so far."""

    def __init__(self) -> None:
        self.requested: list[ModelRequest] = []
        self._by_id: dict[str, deque[int]] = {}
        self._by_name: dict[str | None, deque[int]] = {}
        self._in_order: deque[int] = deque()
        self._last_by_agent: dict[str | None, tuple[Observation, range]] = {}
        self._answered: dict[str | None, int] = {}
        self._repeated: set[str] = set()  # the ids of calls and results that a history repeated

    def add_all(self, llm_call: Observation) -> None:
        """Add the calls that a model call requests."""
        first = len(self.requested)
        for call in llm_call.tool_calls:
            self._add(call, llm_call)
        before = self._last_by_agent.get(llm_call.agent)
        if before is None or not llm_call.failed or self.requested[first:] or llm_call.response:
            self._last_by_agent[llm_call.agent] = (llm_call, range(first, len(self.requested)))

    def answer_all(self, llm_call: Observation) -> None:
        """Join the results in a model call's request, each once."""
        reported: set[str] = set()
        for result in llm_call.tool_results:
            key = f"result {result.call_id}" if result.call_id else None
            if key in reported:  # in another form too, which may have the mark of a failure
                self._mark(result)
            elif key is None or key not in self._repeated:
                self._answer(result, llm_call)
            if key:
                reported.add(key)
        self._repeated |= reported

    def _mark(self, result: ToolResult) -> None:
        number = self._answered.get(result.call_id)
        if number is not None and self.requested[number].failed is None:
            self.requested[number] = self.requested[number]._replace(failed=result.failed)

    def _answer(self, result: ToolResult, reported_by: Observation) -> None:
        """Join a result to the first call without one that has its id, else its name, else comes first."""
        i = self._unanswered(self._by_id.get(result.call_id)) if result.call_id else None
        if i is None and not (result.call_id and self._by_id):
            i = self._unanswered(self._by_name.get(result.name) if result.name else self._in_order)
        if i is not None:
            self._answered[result.call_id] = i
            self.requested[i] = self.requested[i]._replace(
                result=result.result, reported_by=reported_by, failed=result.failed
            )

    def complete(self, calls: Sequence[MessageCall], agent: str | None) -> None:
        """Take from a request's history what the model call that made these requests does not record."""
        before = self._last_by_agent.get(agent)
        calls = [call for call in calls if call.name and call.call_id not in self._repeated]
        self._repeated.update(call.call_id for call in calls if call.call_id)
        if before is None or all(call.call_id in self._by_id for call in calls):
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
                self._add(call, llm_call)

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

    def _add(self, call: MessageCall, llm_call: Observation) -> None:
        number = len(self.requested)
        if call.call_id:
            self._by_id.setdefault(call.call_id, deque()).append(number)
        self._by_name.setdefault(call.name, deque()).append(number)
        self._in_order.append(number)
        self.requested.append(ModelRequest(call, llm_call, None, None))

    def _unanswered(self, numbers: deque[int] | None) -> int | None:
        while numbers and self.requested[numbers[0]].reported_by is not None:
            numbers.popleft()
        return numbers[0] if numbers else None


def completed(spans: Sequence[Observation], unmatched: UnmatchedCalls, tree: Tree) -> Iterator[Observation]:
    """Yield one turn's tool spans with what only the messages have: name, agent, call id, arguments, result.

    Arguments that are not an object are one argument's value; its name is in the messages.
    """
    matches = [unmatched.pop(span) for span in spans]
    for number, span in enumerate(spans):
        match = matches[number] or unmatched.pop_similar(span)
        is_object = span.arguments is not None and span.arguments.startswith("{")
        if match is None:
            known = span._replace(result=None) if _is_object(span.result) else span
            yield known if is_object else known._replace(arguments=None)
            continue
        yield span._replace(
            name=span.name or match.call.name,
            agent=tree.agent_of(span) or match.requested_by.agent,
            call_id=span.call_id or match.call.call_id,
            arguments=span.arguments if is_object else match.call.arguments,
            result=match.result if _is_object(span.result) else span.result or match.result,
            failed=span.failed or match.failed is True,
            succeeded=match.failed is False,
        )


def _is_object(result: str | None) -> bool:
    """Return whether a result is Python's repr of an object or of a list of one: it tells nothing."""
    return result is not None and _OBJECT.fullmatch(result) is not None


def observations_of(requested: Iterable[ModelRequest]) -> Iterator[Observation]:
    """Yield an observation for each requested call; one without a result ends when it was requested."""
    for item in requested:
        name = item.call.name
        if name is None or name.startswith(_ANSWERS):
            continue
        end = item.requested_by.end_ns if item.reported_by is None else item.reported_by.start_ns
        yield Observation(
            kind="tool",
            trace_id=item.requested_by.trace_id,
            span_id="",
            parent_span_id=item.requested_by.span_id,
            start_ns=item.requested_by.end_ns,
            end_ns=end,
            name=name,
            agent=item.requested_by.agent,
            arguments=item.call.arguments,
            result=item.result,
            call_id=item.call.call_id,
            only_requested=item.reported_by is None,
            failed=item.failed is True,
            succeeded=item.failed is False,
        )


def tool_interaction(
    position: int, turn: int, observation: Observation, tree: Tree, *, has_agents: bool
) -> ToolInteraction:
    """Return the interaction that an observation of a tool records."""
    name = observation.name or ""
    output = json_or_none(observation.result)
    ok, error = ok_and_error(observation, output)
    approval = approval_of(output) or ("approved" if observation.approved else None)
    if approval in {"asked", "rejected"}:  # the tool did neither succeed nor fail
        ok, error = None, None
    timed = observation.span_id and observation.timed
    return ToolInteraction(
        position=position,
        turn=turn,
        tool_name=name,
        input_arguments=json_or_none(observation.arguments),
        output=output,
        arguments_known=observation.arguments is not None,
        output_known=observation.result is not None,
        ok=ok,
        error=error,
        call_id=observation.call_id,
        agent=tree.agent_of(observation),
        handoff=has_agents and (observation.handoff_to is not None or is_handoff(name)),
        start_ns=observation.start_ns,
        end_ns=observation.end_ns,
        latency_s=seconds(observation.start_ns, observation.end_ns) if timed else None,
        trace_id=observation.trace_id,
        span_id=observation.span_id or None,
        approval=approval,
        fault=observation.fault,
    )


def requested_call(position: int, turn: int, observation: Observation) -> RequestedCall:
    """Return the call that an observation records as only requested."""
    return RequestedCall(
        position=position,
        turn=turn,
        tool_name=observation.name or "",
        input_arguments=json_or_none(observation.arguments),
        arguments_known=observation.arguments is not None,
        call_id=observation.call_id,
        agent=observation.agent,
        start_ns=observation.start_ns,
        trace_id=observation.trace_id,
        span_id=observation.parent_span_id,
    )


def ok_and_error(observation: Observation, result: Any) -> tuple[bool | None, str | None]:
    """Return whether a tool call with a result (its JSON value) succeeded, None if unknown, and its error.

    Frameworks record a failure in different places: on the span, or in the result's structure
    (`{"status": "error"}`, a truthy `"error"`, `"isError"`, a `"success"` or `"ok"` of false). No words in a
    text decide: a text that only messages have, or an object's repr with a status in it, may be a failure's
    as well as an answer's.
    """
    failed = observation.failed
    result = python_value(result)
    if isinstance(result, dict):
        failed = (
            failed
            or (isinstance(result.get("status"), str) and result["status"].lower() in _FAILED)
            or bool(result.get("error"))
            or True in (result.get("isError"), result.get("is_error"))
            or result.get("success") is False
            or result.get("ok") is False
        )
    if failed:
        return False, observation.error or _error_in(result)
    if observation.succeeded:
        return True, None
    if observation.result is None or (
        (result is None or isinstance(result, str)) and not observation.span_id
    ):
        return None, None
    if isinstance(result, str) and _STATUS_IN_REPR.match(result):
        return None, None
    return True, None


def _error_in(result: Any) -> str | None:
    """Return the message of a failure in a call's result; None if there is none."""
    if isinstance(result, dict):
        keys = ("error_message", "error", "message", "detail")
        return next((str(result[key]) for key in keys if result.get(key)), None)
    return result if isinstance(result, str) else None


def json_or_none(text: str | None) -> Any:
    """Return the value of a JSON text; None for None."""
    return None if text is None else orjson.loads(text)
