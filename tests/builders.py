"""Builders of sessions, their rows and golden questions for tests: each argument has a plain default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.converters.spans.observation import (
    TYPES,
    Kind,
    Observation,
    SpanFailure,
    SpanRef,
    as_kind,
    changed,
    fields_of,
)
from spangrade.converters.spans.registry import observe
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.session import Latency, LLMCall, Session, Step, ToolInteraction, Turn, Usage
from spangrade.tracer.span import Span

SECOND_NS = 1_000_000_000
UNRECORDED = object()  # arguments that no span carries


def reading(
    kind: Kind, span_id: str, parent: str | None = None, seconds: tuple[float, float] = (0, 1), **changes: Any
) -> Fields:
    """Return what is read of a span of the trace `t1`; `seconds` are its start and end."""
    start_ns, end_ns = (int(second * SECOND_NS) for second in seconds)
    span = SpanRef("t1", span_id, parent, start_ns, end_ns)
    return Fields(as_kind(TYPES[kind](span), kind))._replace(**changes)


class Fields:
    """An observation by the names of its fields, in whatever group; those of other kinds are empty."""

    def __init__(self, observation: Observation) -> None:
        self.observation = observation
        span = observation.span._asdict()
        span["span_name"] = span.pop("name")
        failure = observation.failure or SpanFailure()
        self._named = {**_EMPTY, **span, **failure._asdict(), **dict(fields_of(observation))}

    def __getattr__(self, name: str) -> Any:
        if name not in self.__dict__.get("_named", {}):
            raise AttributeError(name)
        return self._named[name]

    def _replace(self, **changes: Any) -> Fields:
        """Return the same with other values; those that are not of its kind are left out."""
        made = as_kind(self.observation, changes.get("kind", self.kind))
        own = {name for name, _ in fields_of(made)}
        made = changed(made, **{n: v for n, v in changes.items() if n in own and n != "kind"})
        if made.failure is not None:
            of_failure = {name: changes[name] for name in ("raised", "cut_off") if name in changes}
            made = made._replace(failure=made.failure._replace(**of_failure))
        names = {"span_name": "name", **{name: name for name in SpanRef._fields if name != "name"}}
        span = {names[name]: value for name, value in changes.items() if name in names}
        return Fields(made._replace(span=made.span._replace(**span)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fields) and self.observation == other.observation

    def __hash__(self) -> int:
        return hash(self.observation.span)

    def __repr__(self) -> str:
        return repr(self.observation)


_EMPTY = {
    name: value for made in TYPES.values() for name, value in fields_of(made(SpanRef("", "", None, 0, 0)))
}


def observed_fields(spans: Iterable[Span]) -> list[Fields]:
    """Return what is read of spans."""
    return list(map(Fields, observe(spans, {})))


def built_session(
    session_id: str,
    source: Literal["conversation", "trace"],
    readings: Iterable[Fields],
    *rest: Any,
    **more: Any,
) -> Session:
    """Return the session of spans that were read so."""
    return build_session(session_id, source, (one.observation for one in readings), *rest, **more)


def turn(index: int = 1, user_input: str | None = "hi", **changes: Any) -> Turn:
    """Return a turn that began at 0 and took as many seconds as its number."""
    made = Turn(
        turn=index,
        user_input=user_input,
        final_response="ok",
        start_ns=0,
        end_ns=index * SECOND_NS,
        latency_s=float(index),
        trace_ids=("t1",),
    )
    return made._replace(**changes)


def step(name: str, kind: Literal["agent", "tool"] = "tool", **changes: Any) -> Step:
    """Return a step of the trajectory; its span bears the step's name."""
    made = Step(
        position=0, turn=None, kind=kind, name=name, start_ns=0, trace_id="t1", span_id=f"{name} step"
    )
    return made._replace(**changes)


def tool(name: str, arguments: Any = UNRECORDED, **changes: Any) -> ToolInteraction:
    """Return a successful call of one second; its span bears the tool's name."""
    known = arguments is not UNRECORDED
    call = ToolInteraction(
        position=0,
        turn=1,
        tool_name=name,
        input_arguments=arguments if known else None,
        output=None,
        arguments_known=known,
        output_known=False,
        ok=True,
        error=None,
        call_id=None,
        agent="shop",
        handoff=False,
        start_ns=0,
        end_ns=SECOND_NS,
        latency_s=1.0,
        trace_id="t1",
        span_id=name,
    )
    return call._replace(**changes)


def llm(
    model: str | None = "gpt-4o", tokens: tuple[int | None, int | None] = (64, 16), **changes: Any
) -> LLMCall:
    """Return a model call of one second that cost a cent."""
    call = LLMCall(
        position=0,
        turn=1,
        agent="shop",
        provider=None,
        model=model,
        input_tokens=tokens[0],
        output_tokens=tokens[1],
        cached_input_tokens=32,
        reasoning_tokens=4,
        grounding_chunks=None,
        code_executions=None,
        cost_usd=0.01,
        start_ns=0,
        end_ns=SECOND_NS,
        latency_s=1.0,
        trace_id="t1",
        span_id="llm",
        context_window=128_000,
    )
    return call._replace(**changes)


def session(
    turns: Sequence[tuple[str | None, Sequence[ToolInteraction]]] = (("hi", ()),),
    *,
    steps: Sequence[str] | None = None,
    agents: Sequence[str] | None = ("shop",),
    **changes: Any,
) -> Session:
    """Return a session of the agent `shop` with these calls; `steps` are names of `agents` and of tools.

    Without `steps` the trajectory is the first agent and then the calls.
    """
    calls = [call._replace(turn=index) for index, (_, made) in enumerate(turns, 1) for call in made]
    calls = [call._replace(position=position) for position, call in enumerate(calls)]
    names = steps if steps is not None else [*(agents or ())[:1], *(call.tool_name for call in calls)]
    made = Session(
        session_id="s1",
        session_id_source="conversation",
        question_id=None,
        start_ns=0,
        turns=tuple(turn(index, user_input) for index, (user_input, _) in enumerate(turns, 1)),
        trajectory=tuple(
            step(name, "agent" if name in (agents or ()) else "tool", position=position)
            for position, name in enumerate(names)
        ),
        agents=None if agents is None else tuple(agents),
        tool_interactions=tuple(calls),
        handoffs=(),
        state_variables=None,
        llm_calls=(),
        usage=Usage(),
        models=None,
        cost_usd=None,
        cost_unknown=None,
        latency=Latency(total_s=float(sum(range(1, len(turns) + 1)))),
        errors=(),
    )
    return replace(made, **changes)


def question(
    *user_inputs: str,
    id: str = "q1",  # noqa: A002
    agents: Sequence[str] = ("shop",),
    **reference: Any,
) -> GoldenQuestion:
    """Return a golden question; `tools`, `trajectory`, `state` are short for the reference's parts.

    A tool is a name, or a name and its arguments.
    """
    short = {
        "tools": "reference_tool_interactions",
        "trajectory": "reference_trajectory",
        "state": "reference_state_variables",
    }
    if "tools" in reference:
        reference["tools"] = [
            {"tool_name": one} if isinstance(one, str) else {"tool_name": one[0], "input_arguments": one[1]}
            for one in reference["tools"]
        ]
    return GoldenQuestion.model_validate(
        {
            "id": id,
            "user_inputs": list(user_inputs) or ["hi"],
            "agents_evaluated": list(agents),
            "reference_data": {short.get(name, name): value for name, value in reference.items()},
        }
    )
