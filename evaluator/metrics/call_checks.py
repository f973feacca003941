"""Checks of calls that need no reference: the declarations of tools, and repeated calls.

The tools that a recording says its models could call are a reference that nobody has to write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spangrade.converters.spans.values import objects
from spangrade.evaluator.metrics.call_text import call_text, listed
from spangrade.evaluator.metrics.masked import compared_arguments, has_mask
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, metric
from spangrade.evaluator.session import RequestedCall, Session, ToolInteraction
from spangrade.tracer.base.canonical_json import canonical

_DECLARE = "; record the tools with the model calls (gen_ai.tool.definitions)"
_Call = ToolInteraction | RequestedCall


@metric(unit="calls", higher_is_better=False)
def schema_violations(session: Session) -> Outcome:
    """The number of calls, executed or requested, whose arguments do not conform to the tool's JSON schema.

    A tool that several agents declare in different ways is called as one of them declares it. Hand-offs are
    left out. Inconclusive if the arguments of a call are not recorded, or the declaration of its tool, or if
    its schema cannot be checked.

    Source: own definition, by JSON Schema.
    """
    schemas = _schemas(session)
    unknown: dict[str, None] = {}
    wrong: list[tuple[_Call, str]] = []
    for call in _calls(session):
        declared = schemas.get(call.tool_name)
        if declared is None:
            unknown[f"the parameters of {call.tool_name} are not declared{_DECLARE}"] = None
        elif not call.arguments_known:
            unknown[f"the arguments of {call.tool_name} are not recorded"] = None
        else:
            why, doubt = _violation(call, declared)
            if doubt:
                unknown[doubt] = None
            elif why:
                wrong.append((call, why))
    return _count(session, wrong, unknown)


@metric(unit="calls", higher_is_better=False)
def undeclared_calls(session: Session) -> Outcome:
    """The number of calls, executed or requested, of tools that no model call of their agent declares.

    Where the agent of a call, or of a declaration, is not recorded, any agent's counts. Hand-offs are never
    counted. Inconclusive if nothing is declared, or nothing to the agent of such a call.

    Source: own definition.
    """
    tools: dict[str | None, set[str]] = {}
    for agent, tool in session.declared_to or ():
        tools.setdefault(agent, set()).add(tool)
    unknown: dict[str, None] = {}
    wrong: list[tuple[_Call, str]] = []
    for call in _calls(session):
        of_agent = tools if call.agent is None or None in tools else {call.agent: tools.get(call.agent, ())}
        if any(call.tool_name in declared for declared in of_agent.values()):
            continue
        if not any(of_agent.values()):
            whose = f"of the agent {call.agent}" if tools else "of any agent"
            unknown[f"the tools {whose} are not declared{_DECLARE}"] = None
        else:
            to = "" if call.agent is None else f" to {call.agent}"
            wrong.append((call, f"{call.tool_name} is not declared{to}"))
    return _count(session, wrong, unknown)


@metric(unit="calls", higher_is_better=False, grows=True)
def repeated_calls(session: Session) -> Outcome:
    """The number of calls with the tool, the arguments and the result of an earlier call of the session.

    Hand-offs are left out. Inconclusive if that depends on arguments or results that are not recorded, or
    are masked.

    Source: own definition; looping, as annotators of agents' trajectories mark it.
    """
    by_tool: dict[str, list[ToolInteraction]] = {}
    for call in session.tool_interactions:
        if not call.handoff:
            by_tool.setdefault(call.tool_name, []).append(call)
    unknown: dict[str, None] = {}
    wrong: list[tuple[_Call, str]] = []
    for name, calls in by_tool.items():
        made: set[str] = set()
        for call in calls:
            values = (compared_arguments(call), call.output, call.error)
            if not call.arguments_known or not (call.output_known or call.error) or has_mask(values):
                if len(calls) > 1:
                    unknown[
                        f"the arguments or results of {name} are not recorded (spangrade lint says how)"
                    ] = None
                continue
            key = canonical(values)
            if key in made:
                wrong.append((call, f"{call_text(call)} again"))
            made.add(key)
    return _count(session, wrong, unknown)


@metric(unit="calls", higher_is_better=False)
def retries(session: Session) -> Outcome:
    """The number of calls of a tool whose last call before, by the same agent, failed.

    Hand-offs, and calls that did not run, are left out. Inconclusive if it is not recorded whether such a
    call failed.

    Source: own definition.
    """
    unknown: dict[str, None] = {}
    last: dict[tuple[str | None, str], ToolInteraction] = {}
    wrong: list[tuple[_Call, str]] = []
    for call in session.tool_interactions:
        if call.handoff or not call.ran:
            continue
        before = last.get((call.agent, call.tool_name))
        last[call.agent, call.tool_name] = call
        if before is not None and before.ok is None:
            unknown[f"whether {call.tool_name} failed is not recorded"] = None
        elif before is not None and before.ok is False:
            wrong.append((call, f"{call.tool_name} after {call_text(before)}"))
    return _count(session, wrong, unknown)


METRICS = (schema_violations, undeclared_calls, repeated_calls, retries)


def _calls(session: Session) -> list[_Call]:
    """Return the calls that were executed or requested, without hand-offs."""
    handoffs = {call.tool_name for call in session.tool_interactions if call.handoff}
    made = [call for call in session.tool_interactions if not call.handoff]
    return [*made, *(call for call in session.requested_calls if call.tool_name not in handoffs)]


def _violation(call: _Call, schemas: Sequence[str]) -> tuple[str, str]:
    """Return why a call violates all schemas of its tool, else empty, and why that is not known."""
    from spangrade.evaluator.metrics.json_schema import UndecidedError, violation  # 0.1 s

    arguments = {} if call.input_arguments is None else compared_arguments(call)
    try:
        found = [violation(schema, arguments) for schema in schemas]
    except UndecidedError as error:
        return "", f"{call.tool_name}: {error}"
    if None in found or found[0] is None:
        return "", ""
    if has_mask(arguments):
        return "", f"the arguments of {call.tool_name} are masked"
    path, why = found[0]
    return f"{call.tool_name}({path}): {why}" if path else f"{call.tool_name}: {why}", ""


def _schemas(session: Session) -> Mapping[str, Sequence[str]]:
    """Return the JSON schemas of each declared tool's arguments, as canonical JSON."""
    schemas: dict[str, list[str]] = {}
    for item in objects(session.tool_declarations):
        for one in objects(item.get("function_declarations")):
            if isinstance(one.get("parameters"), dict):
                schemas.setdefault(str(one.get("name")), []).append(canonical(one["parameters"]))
    return schemas


def _count(session: Session, wrong: Sequence[tuple[_Call, str]], unknown: Mapping[str, None]) -> Outcome:
    """Return the number of calls, each with why it counts; a lower bound if there may be more."""
    reasons = listed([why for _, why in wrong])
    if why := session.calls_unknown_of() or listed(list(unknown)):
        return Inconclusive(f"{why}; {reasons}" if wrong else why, float(len(wrong)))
    spans = tuple(call.span_id for call, _ in wrong if call.span_id is not None)
    return Score(float(len(wrong)), None, reasons or "none", spans)
