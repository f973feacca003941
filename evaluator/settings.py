"""The settings of a project that grade, and the one place where they fill in a `GradeSpec`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, get_type_hints

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, create_model, model_validator

from spangrade.evaluator.grading.alerts import AlertRule
from spangrade.evaluator.grading.interpretation import RequestedCalls, RootAgentName
from spangrade.evaluator.grading.run_options import RunOptions
from spangrade.evaluator.grading.spec import Gates, GradeSpec
from spangrade.evaluator.judge.options import JudgeOptions, judge_in_use
from spangrade.tracer.base.fields import FieldError, option_fields
from spangrade.tracer.base.quantities import share_of
from spangrade.tracer.base.settings import VARIABLES, AgentSettings, Loaded, SettingsTable, load


def _gate(text: str) -> str:
    if ">=" not in text and "<=" not in text:
        raise ValueError(f"expected NAME>=THRESHOLD or NAME<=THRESHOLD, found {text!r}")
    return text


if TYPE_CHECKING:
    from spangrade.converters.datasets.call_rules import Rule
else:
    Rule = Any  # its module takes 12 ms to import: `_with_rules` does if there are rules


def _distinct(rules: list[Rule]) -> list[Rule]:
    names = [rule.name for rule in rules]
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two rules are named {doubled}")
    return rules


class _Judge(SettingsTable):
    """The table `judge`: a key for each of the options of a judge."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        self.options()
        return self

    def options(self) -> JudgeOptions:
        """Return the options; those that have their default are not given.

        Raises InputError for a value that is out of range.
        """
        given = {name: value for name, value in self if name in self.model_fields_set}
        return JudgeOptions(**given)


if TYPE_CHECKING:
    JudgeSettings = _Judge
else:
    _DEFAULTS = {"votes": 1}
    JudgeSettings = create_model(
        "JudgeSettings",
        __base__=_Judge,
        **{name: (kind, _DEFAULTS.get(name)) for name, kind in get_type_hints(JudgeOptions).items()},
    )


class _Run(SettingsTable):
    """The table `run`: the agent that `spangrade run` asks, the questions, and a key for each option.

    The agent is one of `agent`, `http`, and `openai` with `model`, as on the command line.
    """

    agent: str | None = None
    http: str | None = None
    http_body: str | None = None
    http_reply: str | None = None
    openai: str | None = None
    model: str | None = None
    dataset: str | None = None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if len(given := [name for name in ("agent", "http", "openai") if getattr(self, name)]) > 1:
            raise ValueError(f"expected one agent, found {' and '.join(given)}")
        if (self.openai is None) is not (self.model is None):
            raise ValueError("expected openai and model together")
        self.options()
        return self

    def options(self) -> RunOptions:
        """Return the options; those that have their default are not given.

        Raises InputError for a value that is out of range.
        """
        given = {name: value for name, value in self if name in _RUN_OPTIONS}
        try:
            return RunOptions(**given)
        except FieldError as error:
            raise FieldError(f"run.{error.name.partition('.')[2]}", error.problem) from None


# A run is completed by a command of its own, not by a setting.
_RUN_OPTIONS = {
    name: kind
    for name, kind in get_type_hints(RunOptions).items()
    if name not in ("failed", "resume", "replay")
}
if TYPE_CHECKING:
    RunSettings = _Run
else:
    _RUN_DEFAULTS = {"repeat": 1, "concurrency": 1, "timeout": "2m"}
    RunSettings = create_model(
        "RunSettings",
        __base__=_Run,
        **{name: (kind, _RUN_DEFAULTS.get(name)) for name, kind in _RUN_OPTIONS.items()},
    )


class ReferenceSettings(SettingsTable):
    """How references are matched and which are gates, where a grade does not say it: see `Gates`."""

    no_reference: list[str] = Field(default=[])
    no_references: bool = False
    require_match: bool = False
    root_agent_name: RootAgentName | None = None
    requested_calls: RequestedCalls | None = None


class SamplingSettings(SettingsTable):
    """Which of the chosen sessions `grade` without a dataset takes: a share, and at most `limit`."""

    share: Annotated[float, BeforeValidator(share_of)] | None = None
    limit: Annotated[int, Field(ge=1)] | None = None


class ProjectSettings(AgentSettings):
    """All settings of a project."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    variables: ClassVar[Mapping[str, str]] = {
        **VARIABLES,
        "gates": "SPANGRADE_GATES",
        "metrics": "SPANGRADE_METRICS",
        "metrics_files": "SPANGRADE_METRICS_FILES",
        **{
            f"judge.{one.field.name}": f"SPANGRADE_{one.flag.removeprefix('--').replace('-', '_').upper()}"
            for one in option_fields(JudgeOptions)
        },
        **{f"run.{name}": f"SPANGRADE_{f'run_{name}'.upper()}" for name in RunSettings.model_fields},
        **{f"references.{name}": f"SPANGRADE_{name.upper()}" for name in ReferenceSettings.model_fields},
        "sampling.share": "SPANGRADE_SAMPLE",
        "sampling.limit": "SPANGRADE_LIMIT",
    }

    gates: list[Annotated[str, AfterValidator(_gate)]] = Field(default=[])
    metrics: list[str] = Field(default=[])
    metrics_files: list[str] = Field(default=[])
    rules: list[Rule] = Field(default=[])
    judge: JudgeSettings = JudgeSettings()
    run: RunSettings = RunSettings()
    references: ReferenceSettings = ReferenceSettings()
    sampling: SamplingSettings = SamplingSettings()
    alerts: list[AlertRule] = Field(default=[])
    options: dict[str, dict[str, bool | int | float | str | list[str]]] = Field(default={})

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> type[ProjectSettings]:
        """Return the model of settings, in which rules are checked if there are any."""
        return _with_rules() if values.get("rules") else cls


@cache
def _with_rules() -> type[ProjectSettings]:
    from spangrade.converters.datasets.call_rules import Rule

    rules: Any = Annotated[list[Rule], AfterValidator(_distinct)], Field(default=[])
    return create_model("ProjectSettings", __base__=ProjectSettings, rules=rules)


NO_SETTINGS = ProjectSettings()


def load_settings(file: Path | None = None) -> Loaded[ProjectSettings]:
    """Return the settings in force of a project; see `tracer.base.settings.load`."""
    return load(ProjectSettings, file)


def with_definitions(gates: Gates, settings: ProjectSettings) -> Gates:
    """Return gates with the settings' files of metrics, rules and references, where they say nothing."""
    found, own = settings.references, (settings.metrics_files, settings.rules)
    return replace(
        gates,
        metrics_files=tuple(own[0]) if gates.metrics_files is None else gates.metrics_files,
        rules=own[1] if gates.rules is None else gates.rules,
        no_reference=gates.no_reference or tuple(found.no_reference),
        no_references=gates.no_references or found.no_references,
        require_match=gates.require_match or found.require_match,
        root_agent_name=gates.root_agent_name or found.root_agent_name,
        requested_calls=gates.requested_calls or found.requested_calls,
    )


def filled(spec: GradeSpec, settings: ProjectSettings, *, sampled: bool = False) -> GradeSpec:
    """Return a specification, completed from the settings.

    The settings' sample is for sessions without a dataset, whose questions would go unanswered, unless
    `sampled`. A judge in use comes before that of the settings.
    """
    gates, select = with_definitions(spec.gates, settings), spec.select
    if spec.dataset is None:  # it is about golden questions
        gates = replace(gates, require_match=spec.gates.require_match)
    if gates.metrics is None:
        gates = replace(gates, metrics=(*settings.gates, *settings.metrics))
    if sampled or spec.dataset is None:
        share, limit = settings.sampling.share, settings.sampling.limit
        select = replace(
            select,
            sample=share if select.sample is None else select.sample,
            limit=limit if select.limit is None else select.limit,
        )
    judge = spec.judge.filled(settings.judge.options())
    if spec.judge.model is None and judge.model is not None and judge_in_use() is not None:
        judge = replace(judge, model=None)
    return replace(spec, gates=gates, select=select, judge=judge)
