"""Grades as they are asked for through each door: in values of Python, and in options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paths import SAMPLE

import spangrade as package
from spangrade import Gates, GradeSpec, JudgeOptions, Selection
from spangrade.tracer.base.fields import option_fields

GOLDEN = SAMPLE / "customer_service_golden.json"
GROUPS = {"gates": Gates, "select": Selection, "judge": JudgeOptions}


class Asked(NamedTuple):
    """What a grade is asked for: its dataset, the fields of its groups, the settings of the project."""

    dataset: Path | None = None
    gates: Mapping[str, Any] = {}
    select: Mapping[str, Any] = {}
    settings: str = ""

    @property
    def spec(self) -> GradeSpec:
        return GradeSpec(self.dataset, Gates(**self.gates), Selection(**self.select))

    @property
    def options(self) -> list[str]:
        """The same on the command line."""
        return [
            *(() if self.dataset is None else [str(self.dataset)]),
            *self.of_group("gates"),
            *self.selected,
        ]

    @property
    def selected(self) -> list[str]:
        return self.of_group("select")

    def of_group(self, name: str) -> list[str]:
        values, options = getattr(self, name), []
        for one in option_fields(GROUPS[name]):
            value = values.get(one.field.name)
            if isinstance(value, Mapping):
                value = [f"{key}={each}" for key, each in value.items()]
            for each in value if isinstance(value, list) else [value]:
                options += [one.flag] if each is True else [] if each is None else [one.flag, str(each)]
        return options


GATES = 'gates = ["tool_success_rate>=0.9"]\n'
SPECS = {
    "a folder": Asked(SAMPLE),
    "a file": Asked(GOLDEN),
    "a file and a gate": Asked(GOLDEN, {"metrics": ["tool_success_rate>=0.9"]}),
    "gates alone": Asked(None, {"metrics": ["tool_success_rate>=0.9", "cost<=1"]}),
    "a stored score": Asked(None, {"metrics": ["thumbs>=1"]}),
    "a stored score and a folder": Asked(SAMPLE, {"metrics": ["thumbs>=1"]}),
    "gates of the settings": Asked(None, settings=GATES),
    "a folder and gates of the settings": Asked(SAMPLE, settings=GATES),
    "gates in place of the settings'": Asked(SAMPLE, {"metrics": ["cost<=1"]}, settings=GATES),
    "a sample": Asked(None, {"metrics": ["cost<=1"]}, {"sample": "50%"}),
    "a sample of the settings": Asked(None, settings=f"{GATES}[sampling]\nshare = 0.5\n"),
    "recent sessions": Asked(GOLDEN, {"metrics": ["cost<=1"]}, {"since": "2020-01-01"}),
    "references switched off": Asked(GOLDEN, {"metrics": ["tool_success_rate>=0.9"], "no_references": True}),
    "sessions by id": Asked(GOLDEN, {}, {"sessions": ["conversation-1", "conversation-3"]}),
    "a condition on sessions": Asked(GOLDEN, {}, {"where": "session_id <> 'conversation-2'"}),
    "an agent and a limit": Asked(None, {"metrics": ["cost<=1"]}, {"model": "gemini-2.5-flash", "limit": 2}),
    "the latest of each question": Asked(SAMPLE, {}, {"latest_per_question": True}),
}


def of_run(run: package.Run) -> dict[str | None, str]:
    return {one.session_id or one.question_id: one.verdict.value for one in run.sessions}


def of_grades(grades: Sequence[Mapping[str, Any]]) -> dict[str | None, str]:
    return {one["session_id"] or one["question_id"]: one["verdict"] for one in grades}
