"""The work of assembling a session grows with its spans, not with their square, whatever their shape."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from builders import Fields, built_session, reading
from work import lines_executed

from spangrade.converters.spans.observation import Kind, MessageCall, ToolResult
from spangrade.evaluator.session import Session

Shape = Callable[[int], list[Fields]]


def chain(*kinds: Kind, **changes: object) -> Shape:
    """Spans that are each inside the one before, of these kinds in turn."""
    return lambda count: [
        reading(
            kinds[i % len(kinds)], f"{i:06}", f"{i - 1:06}" if i else None, (i, 2 * count - i), name=f"n{i}"
        )._replace(**changes)
        for i in range(count)
    ]


def failures(message: str) -> Shape:
    """Nested agents that all failed, each with its own message."""
    return lambda count: [
        o._replace(error=message.format(o.name)) for o in chain("agent", failed=True)(count)
    ]


def siblings(*kinds: Kind) -> Shape:
    """Spans beside each other beneath one agent, of these kinds in turn; all failed, all with one name."""
    return lambda count: [
        reading("agent", "root", None, (0, count + 2), name="a"),
        *(
            reading(kinds[i % len(kinds)], f"{i:06}", "root", (i, i + 1), name="n", failed=True)
            for i in range(count)
        ),
    ]


def beneath(outer: Kind, inner: Kind) -> Shape:
    """Half of the spans inside each other, the others all inside the innermost of them."""

    def shape(count: int) -> list[Fields]:
        outside = chain(outer)(count // 2)
        last = outside[-1].span_id
        inside = (count // 2 + 1, count // 2 + 2)
        return outside + [reading(inner, f"x{i:06}", last, inside, name=f"x{i}") for i in range(count // 2)]

    return shape


def calls(*, ids: bool, spans: bool) -> Shape:
    """A model's calls of one tool, each with its result in the next request, and perhaps its own span."""

    def shape(count: int) -> list[Fields]:
        found = []
        for i in range(count):
            call_id = f"c{i}" if ids else None
            before = f"c{count - i}" if ids else None  # the results come in any order
            found.append(
                reading("llm", f"m{i:06}", "root", (2 * i, 2 * i + 1))._replace(
                    tool_calls=(MessageCall("find", call_id, f'{{"n":{i}}}'),),
                    tool_results=(ToolResult("find", before, str(i)),) if i else (),
                )
            )
            if spans:
                arguments = f'{{"n":{count - i}}}'
                tool = reading("tool", f"t{i:06}", "root", (2 * i, 2 * i + 1), name="find")
                found.append(tool._replace(call_id=before, arguments=arguments))
        return [reading("turn", "root", None, (0, 2 * count + 2)), *found]

    return shape


def transfers(count: int) -> list[Fields]:
    """Agents, and models that request to hand over to them."""
    agents = [reading("agent", f"a{i:06}", "root", (i, i + 1), name=f"a{i}") for i in range(count)]
    requests = [
        reading("llm", f"m{i:06}", "root", (i, i + 1))._replace(
            tool_calls=(MessageCall(f"transfer_to_a{i}", None, None),)
        )
        for i in range(count)
    ]
    return [reading("turn", "root", None, (0, count + 2)), *agents, *requests]


SHAPES: dict[str, Shape] = {
    "nested agents": chain("agent"),
    "nested model calls": chain("llm"),
    "nested tools": chain("tool"),
    "nested workflows and model calls": chain("workflow", "llm"),
    "nested turns": chain("turn"),
    "nested hand-offs": chain("handoff"),
    "nested agents that failed alike": failures("no"),
    "nested agents that failed differently": failures("no {}."),
    "nested agents that failed without a message": chain("agent", failed=True),
    "model calls within others": beneath("other", "llm"),
    "tools within workflows": beneath("workflow", "tool"),
    "tools within model calls": beneath("llm", "tool"),
    "tools beside each other": siblings("tool"),
    "all beside each other": siblings("tool", "llm", "agent", "workflow", "handoff"),
    "calls by id": calls(ids=True, spans=False),
    "calls by name": calls(ids=False, spans=False),
    "calls by id with spans": calls(ids=True, spans=True),
    "calls by name with spans": calls(ids=False, spans=True),
    "transfers": transfers,
}


def built(observations: list[Fields]) -> Session:
    return built_session("s", "conversation", observations)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.short_form("shape", 5)
def test_twice_the_spans_are_twice_the_work(shape: Shape) -> None:
    small, large = shape(300), shape(600)
    built(shape(2))  # what is done once
    assert lines_executed(lambda: built(large)) < 2.6 * lines_executed(lambda: built(small))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name", ["nested agents", "nested model calls", "nested agents that failed differently"]
)
def test_spans_may_be_nested_deeper_than_calls_in_python(name: str) -> None:
    session = built(SHAPES[name](20_000))
    assert len(session.turns) == 1


def test_a_failure_around_many_others_is_reported_unless_it_repeats_one_of_the_nearest() -> None:
    different = failures("no {}.")(300)
    assert len(built(different).errors) == 300
    repeating = [different[0]._replace(error="failed: no n1."), *different[1:]]
    near = [*different[:150], different[150]._replace(error="failed: no n151."), *different[151:]]
    assert len(built(near).errors) == 299
    assert len(built(repeating).errors) == 299
