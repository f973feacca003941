"""What an agent answered and did in one turn: from its spans, and from what it returned."""

from __future__ import annotations

import sysconfig
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spangrade import converters, evaluator, tracer
from spangrade.converters.spans.registry import observe
from spangrade.converters.spans.vendor import Vendor
from spangrade.evaluator.agents.adapters import Reply
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.derive.handoffs import is_handoff
from spangrade.evaluator.derive.turns import is_agents_own
from spangrade.evaluator.session import ToolInteraction, outside_text
from spangrade.evaluator.turn import AgentTurn, ToolCall, TurnEvent
from spangrade.tracer import semconv
from spangrade.tracer.base.errors import one_line, text_of
from spangrade.tracer.span import Span

# Where code is that is not the user's: Python's, that of packages, ours.
_NOT_OWN = (
    "<",
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    *(str(Path(module.__file__ or "").parent) for module in (converters, evaluator, tracer)),
)


REPORTED = "{}"  # what was seen of a span that records what the agent reported


class ObservedCall(NamedTuple):
    """One execution of a tool. `arguments` and `result` are JSON values; None if not known."""

    name: str
    arguments: Any
    result: Any
    arguments_known: bool
    result_known: bool
    handoff: bool


class Exchange(NamedTuple):
    """One turn as the caller of an agent sees it: the message sent, and the reply or the lack of it.

    `text` is the reply, None if there was none, and `error` the exception of the agent. `calls` are its tool
    calls, in order; None if not known, and `calls_unknown` says why. `unrecorded` are calls without a span,
    which the stored session lacks; `agents` are named by the spans. `cost_usd` is the price of the recorded
    `model_calls`, None if any price is unknown. `events` are further values that the agent yielded, each
    with the number of calls before it. `start_ns` and `end_ns` are the turn's times, 0 if no agent was asked.
    `calls_unseen` is why there may be calls of any tool beside those that are recorded, `calls_outside` are
    the tools of calls that may be the turn's, and are not captured. `reply` is what the agent returned,
    `trace_id` the trace of the turn.
    """

    text: str | None
    calls: tuple[ObservedCall, ...] | None
    unrecorded: tuple[ObservedCall, ...] = ()
    agents: tuple[str, ...] = ()
    cost_usd: float | None = None
    model_calls: int = 0
    events: tuple[tuple[int, TurnEvent], ...] = ()
    sent: str = ""
    error: BaseException | None = None
    start_ns: int = 0
    end_ns: int = 0
    calls_unknown: str | None = None
    calls_unseen: str | None = None
    calls_outside: tuple[str, ...] = ()
    reply: Reply = Reply()
    trace_id: str = ""

    @property
    def failure(self) -> str | None:
        """What the agent raised, with the last line of its own code: `ValueError: no (shop.py:12)`."""
        if self.error is None:
            return None
        place = last_own_line(self.error)
        return one_line(text_of(self.error)) + (f" ({place})" if place else "")

    def why_calls_unknown(self, *, at_all: bool = False) -> str | None:
        """Return why the calls are not known, or whether there are some at all; None if they are."""
        if self.calls is None or self.calls_unseen:
            return self.calls_unseen or self.calls_unknown or "the agent was not asked"
        return None if at_all or not self.calls_outside else outside_text(self.calls_outside)

    def completed(self, spans: Sequence[Span], dialects: Sequence[Vendor] = ()) -> Exchange:
        """Return the exchange by all spans of its turn, also those that ended after the reply."""
        own = [span for span in spans if span.attributes.get(semconv.DRIVEN) != REPORTED]
        again = observed(own, self.reply, dialects)
        marks = [str(span.attributes.get(semconv.UNFINISHED, "")) for span in spans]
        return self._replace(
            calls=again.calls,
            calls_unknown=again.calls_unknown,
            calls_unseen="; ".join(filter(None, (self.calls_unseen, *marks))) or None,
        )

    def as_agent_turn(self) -> AgentTurn:
        """Return the turn in the form of an expected one."""
        events = [event for _, event in self.events] or None
        if self.calls is None or self.calls_unseen:
            return AgentTurn(self.text or "", None, events=events)
        calls = [
            ToolCall(
                call.name or "unnamed",
                call.arguments if isinstance(call.arguments, dict) else None,
                call.result,
            )
            for call in self.calls
        ]
        return AgentTurn(self.text or "", calls, events=events)


def observed(spans: Sequence[Span], reply: Reply, dialects: Sequence[Vendor] = ()) -> Exchange:
    """Return the turn that the spans describe, read as stored sessions are, completed by the agent's reply.

    The reply's text is what the user saw; without one, the text is that of the spans. Tool calls are those
    of the spans if there are any, else the reply's; those that the agent itself lists count without a span,
    too. `dialects` are those of the project's settings.
    """
    observations = observe(spans, {}, dialects)
    session = build_session("turn", "conversation", observations)
    text = reply.text
    if text is None:
        responses = [turn.final_response for turn in session.turns if turn.final_response is not None]
        text = responses[-1] if responses else None
    calls_from_reply = None if reply.tool_calls is None else tuple(map(_from_reply, reply.tool_calls))
    calls_from_spans = tuple(map(_from_spans, session.tool_interactions))
    calls, unrecorded = calls_from_reply, calls_from_reply or ()
    if calls_from_spans:
        unrecorded = _without_span(calls_from_spans, unrecorded) if reply.stated else ()
        calls = _completed(calls_from_spans, calls_from_reply or ()) + unrecorded
    elif calls is None and any(map(is_agents_own, observations)):
        calls = ()
    return Exchange(
        text,
        calls,
        unrecorded=unrecorded,
        agents=session.agents or (),
        cost_usd=session.cost_usd,
        model_calls=len(session.llm_calls),
        events=reply.events,
        reply=reply,
        calls_unknown=why_unknown(reply) if calls is None else None,
    )


def _without_span(
    from_spans: Sequence[ObservedCall], from_reply: Iterable[ObservedCall]
) -> tuple[ObservedCall, ...]:
    """Return the calls of the reply beyond those of the spans, by name."""
    recorded = Counter(call.name for call in from_spans)
    left = []
    for call in from_reply:
        if recorded[call.name]:
            recorded[call.name] -= 1
        else:
            left.append(call)
    return tuple(left)


def why_unknown(reply: Reply) -> str:
    """Return why the calls of a turn are not known by the reply, and how to record them."""
    found = "no span has them"
    if reply.instead:
        found = f"the answer has `{reply.instead[0]}`, expected `tool_calls`"
    return f"{found}: {reply.to_record}"


def last_own_line(error: BaseException) -> str | None:
    """Return the last line of the user's code in a traceback as `file:line`; None if there is none."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    found = next((frame for frame in frames if not frame.filename.startswith(_NOT_OWN)), None)
    if found is None:
        return None if error.__cause__ is None else last_own_line(error.__cause__)
    path = Path(found.filename)
    return f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}:{found.lineno}"


def _from_reply(call: ToolCall) -> ObservedCall:
    return ObservedCall(
        name=call.name,
        arguments=call.arguments,
        result=call.result,
        arguments_known=call.arguments is not None,
        result_known=call.result is not None,
        handoff=is_handoff(call.name),
    )


def _from_spans(interaction: ToolInteraction) -> ObservedCall:
    return ObservedCall(
        name=interaction.tool_name,
        arguments=interaction.input_arguments,
        result=interaction.output,
        arguments_known=interaction.arguments_known,
        result_known=interaction.output_known,
        handoff=interaction.handoff,
    )


def _completed(
    from_spans: tuple[ObservedCall, ...], from_reply: tuple[ObservedCall, ...]
) -> tuple[ObservedCall, ...]:
    """Return the spans' calls, with arguments and results of the reply's where the spans have none.

    Only if both have calls of the same tools in the same order is it certain which belong together.
    """
    if [call.name for call in from_spans] != [call.name for call in from_reply]:
        return from_spans
    return tuple(
        ObservedCall(
            name=call.name,
            arguments=call.arguments if call.arguments_known else other.arguments,
            result=call.result if call.result_known else other.result,
            arguments_known=call.arguments_known or other.arguments_known,
            result_known=call.result_known or other.result_known,
            handoff=call.handoff,
        )
        for call, other in zip(from_spans, from_reply, strict=True)
    )
