"""Fault drills that no scenario of a dataset covers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, get_args

from spangrade.converters.datasets.golden import DrillFault, GoldenQuestion
from spangrade.evaluator.session import Session

FAULTS: Sequence[str] = get_args(DrillFault.model_fields["kind"].annotation)


class Drill(NamedTuple):
    """A tool that sessions called, and the kinds of faults of it that no scenario has."""

    tool: str
    kinds: tuple[str, ...]


def missing_drills(sessions: Iterable[Session], questions: Iterable[GoldenQuestion]) -> tuple[Drill, ...]:
    """Return the drills of the tools that sessions called; none for a dataset without a scenario."""
    scenarios = [question.scenario for question in questions if question.scenario is not None]
    covered = {(fault.tool, fault.kind) for scenario in scenarios for fault in scenario.faults}
    tools = {call.tool_name for one in sessions for call in one.tool_interactions if not call.handoff}
    drills = (
        Drill(tool, tuple(kind for kind in FAULTS if (tool, kind) not in covered)) for tool in sorted(tools)
    )
    return tuple(drill for drill in drills if drill.kinds) if scenarios else ()
