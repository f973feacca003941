"""The result of an audit: mutants, survivors, proposals that catch them, drills that no scenario has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, get_args

from spangrade.converters.datasets.golden import DrillFault, GoldenQuestion
from spangrade.evaluator.apps.audit.audit import Fate, Tried, counts, share_caught
from spangrade.evaluator.apps.audit.proposals import Proposed
from spangrade.evaluator.apps.audit.survivors import SurvivorGroup, survivors
from spangrade.evaluator.grading.run import JudgeUsage
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import ExitCode

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


class Tally(NamedTuple):
    """How many mutants of a kind, or of a question, there are of each fate."""

    name: str
    fates: Counter[Fate]

    @property
    def share(self) -> float | None:
        """The share that is caught of those that are not right; None if all are."""
        return share_caught(self.fates)


@dataclass(frozen=True)
class Audit:
    """The audit of a dataset.

    `sessions` is the number of sessions that were broken, `left_out` that of the others by why. `tried` are
    the mutants with their fates. `diff` is the change of the golden file that `proposed` makes: empty without
    one, and for a dataset in another format. It was `written` if that was asked for. `judge` is None if none
    was asked. `drills` are those that no scenario covers.
    """

    dataset: str
    seed: int
    number: int
    sessions: int
    left_out: Mapping[str, int]
    tried: tuple[Tried, ...]
    proposed: Proposed
    diff: str
    written: bool
    judge: JudgeUsage | None
    drills: tuple[Drill, ...] = ()

    @cached_property
    def total(self) -> Tally:
        """All mutants."""
        return Tally("all", counts(self.tried))

    @cached_property
    def after(self) -> Tally:
        """The tally of all mutants, once the proposals are in the golden file."""
        return Tally("all", counts(self.proposed.after))

    @cached_property
    def kinds(self) -> list[Tally]:
        """The mutants by kind, the least caught first."""
        return _tallies(self.tried, lambda one: one.kind)

    @cached_property
    def questions(self) -> list[Tally]:
        """The mutants by golden question, the least caught first; questions that expect the same are one."""
        return _tallies(self.tried, lambda one: ", ".join(one.audited.question_ids))

    @cached_property
    def survivors(self) -> list[SurvivorGroup]:
        """The mutants that no gate failed, in groups."""
        return survivors(self.tried)

    @cached_property
    def left(self) -> list[SurvivorGroup]:
        """The mutants that no gate fails even with the proposals, in groups."""
        return survivors(self.proposed.after)

    @property
    def exit_code(self) -> ExitCode:
        """0, or 4 if no session could be audited."""
        return ExitCode.PASSED if self.tried else ExitCode.INCONCLUSIVE


def _tallies(mutants: tuple[Tried, ...], name: Callable[[Tried], str]) -> list[Tally]:
    found: dict[str, list[Tried]] = {}
    for one in mutants:
        found.setdefault(name(one), []).append(one)
    tallies = [Tally(key, counts(members)) for key, members in found.items()]
    return sorted(tallies, key=lambda tally: (2.0 if tally.share is None else tally.share, tally.name))
