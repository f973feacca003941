"""Sessions made by hand: what the tests of the grading steps grade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from spangrade.evaluator.golden import GoldenQuestion
from spangrade.evaluator.session import Latency, LLMCall, Session, Step, ToolInteraction, Turn, Usage

SECOND_NS = 1_000_000_000
UNRECORDED = object()  # arguments that the spans do not carry


def tool(name: str, arguments: Any = UNRECORDED, **changes: Any) -> ToolInteraction:
    """A call of one second that went well; its span bears the tool's name until a session takes it."""
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
    """A model call of one second for a cent."""
    known = (*tokens, 32, 4, None, None, 0.01, 0, SECOND_NS, 1.0)
    call = LLMCall(0, 1, "shop", None, model, *known, "t1", "llm")
    return call._replace(**changes)


def session(
    turns: Sequence[tuple[str | None, Sequence[ToolInteraction]]] = (("hi", ()),),
    *,
    steps: Sequence[str] | None = None,
    agents: Sequence[str] | None = ("shop",),
    **changes: Any,
) -> Session:
    """A session of one agent, `shop`, that makes these calls; `steps` are `agent` names and `tool()` names.

    Without `steps` the trajectory is the first agent and then the calls.
    """
    calls = [call._replace(turn=turn) for turn, (_, made) in enumerate(turns, 1) for call in made]
    calls = [call._replace(position=position) for position, call in enumerate(calls)]
    names = steps if steps is not None else [*(agents or ())[:1], *(call.tool_name for call in calls)]
    position = count()
    made = Session(
        session_id="s1",
        session_id_source="conversation",
        question_id=None,
        turns=tuple(
            Turn(turn, said, "ok", 0, turn * SECOND_NS, float(turn), ("t1",))
            for turn, (said, _) in enumerate(turns, 1)
        ),
        trajectory=tuple(
            Step(
                next(position),
                None,
                "agent" if name in (agents or ()) else "tool",
                name,
                0,
                "t1",
                f"{name} step",
            )
            for name in names
        ),
        agents=None if agents is None else tuple(agents),
        tool_interactions=tuple(calls),
        handoffs=(),
        state_variables=None,
        llm_calls=(),
        usage=Usage(None, None, None, None, None, complete=False),
        models=None,
        cost_usd=None,
        cost_unknown=None,
        latency=Latency(float(sum(range(1, len(turns) + 1))), None, None, None, None),
        errors=(),
    )
    return replace(made, **changes)


def question(
    *user_inputs: str,
    id: str = "q1",  # noqa: A002
    agents: Sequence[str] = ("shop",),
    **reference: Any,
) -> GoldenQuestion:
    """A golden question; `tools`, `trajectory`, `state` are short for the names of the reference's parts.

    A tool is a name or a name and its arguments.
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
