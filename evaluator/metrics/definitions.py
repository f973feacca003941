"""Metric definition files: judged metrics described in JSON, one object per metric.

Keys that begin with `_` are notes, at every level. Other unknown keys are ignored, unless they resemble a
key of the format: a misspelled rubric must not be ignored silently.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from spangrade.converters.datasets.files import load_json
from spangrade.converters.datasets.golden import MAX_PROBLEMS
from spangrade.evaluator.metrics.columns import COLUMNS, FILE_COLUMNS
from spangrade.tracer.base.errors import InputError, hint

NAME = re.compile(r"\w[\w@.-]*")
_PLACEHOLDER = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")
# `Score: [1-5]`: the scale in the words of a template, where no key has it.
_SCALE_IN_WORDS = re.compile(
    r"score:?\s*\[(-?\d+(?:\.\d+)?)\s*(?:-|–|to)\s*(-?\d+(?:\.\d+)?)\]", re.IGNORECASE
)
_VERSION = re.compile(r"_V\d+$")

Text = Annotated[StrictStr, Field(min_length=1)]
Scale = tuple[float, float]


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_notes(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for key in value.keys() - cls.model_fields.keys():
            near = get_close_matches(key.lower().replace("-", "_"), cls.model_fields, n=1, cutoff=0.85)
            if near and not key.startswith("_"):
                raise PydanticCustomError(
                    "wrong_key", 'unknown key "{key}"; did you mean "{near}"?', {"key": key, "near": near[0]}
                )
        return value


class MaterialSource(_Model):
    """The source of a material: a column, or `column:path.in.it`."""

    source_column: Text

    @model_validator(mode="after")
    def _of_a_column(self, info: ValidationInfo) -> Self:
        name = self.source_column.partition(":")[0]
        known = list(dict.fromkeys([*COLUMNS, *sorted(FILE_COLUMNS), *sorted(info.context or ())]))
        if name not in known:
            about = {"name": name, "hint": hint(name, known)}
            raise PydanticCustomError("no_column", 'no column "{name}"; {hint}', about)
        return self


class ScoreRange(_Model):
    """The lowest and the highest score."""

    min: FiniteFloat
    max: FiniteFloat

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if self.min >= self.max:
            raise PydanticCustomError("empty_range", "min must be below max", {})
        return self


class Definition(_Model):
    """One judged metric: a rubric in parts, a rubric as a template, or the name of a managed metric."""

    metric_type: Literal["llm"] = "llm"
    is_managed: bool = False
    managed_metric_name: Text | None = None
    description: StrictStr = ""
    agents: tuple[StrictStr, ...] = ()
    dataset_mapping: dict[str, MaterialSource] = Field(default_factory=dict)
    instruction: Text | None = None
    criteria: dict[str, StrictStr] = Field(default_factory=dict)
    rating_scores: dict[FiniteFloat, StrictStr] = Field(default_factory=dict)
    template: Text | None = None
    score_range: ScoreRange | None = None
    metric_prefix: StrictStr = ""
    natural_language_guidelines: StrictStr | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_notes_inside(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            key: _noted(item) if key in ("criteria", "rating_scores", "dataset_mapping") else item
            for key, item in value.items()
        }

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.is_managed:
            if self.managed_metric_name is None:
                raise _problem("is_managed: a managed metric needs a managed_metric_name")
            if self.managed_name not in MANAGED:
                what = f'managed_metric_name: "{self.managed_metric_name}" is not known'
                raise _problem(f"{what}; {hint(self.managed_name, sorted(MANAGED))}")
        elif self.template is not None:
            for name in self.placeholders:
                if name not in self.sources:
                    raise _problem(f'template: "{{{name}}}" is neither in dataset_mapping nor a column')
            if self.scale is None:
                raise _problem('template: no scale; add a score_range, or "Score: [1-5]" to its text')
        elif self.instruction is None:
            raise _problem("no rubric; expected a template, an instruction, or is_managed")
        elif len(self.rating_scores) < 2:
            raise _problem("rating_scores: expected two scores or more, each with its meaning")
        elif not self.dataset_mapping:
            raise _problem("dataset_mapping: missing; it lists what the judge is shown")
        return self

    @property
    def managed_name(self) -> str:
        """The managed metric's name without its version: `GENERAL_QUALITY` for `general_quality_v1`."""
        return _VERSION.sub("", (self.managed_metric_name or "").upper())

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The names in braces of the template."""
        return tuple(dict.fromkeys(_PLACEHOLDER.findall(self.template or "")))

    @property
    def sources(self) -> dict[str, str]:
        """The column of each material that the judge is shown, by name; for a template, those it names."""
        mapped = {name: source.source_column for name, source in self.dataset_mapping.items()}
        if self.template is None or self.is_managed:
            return mapped
        columns = {name: name for name in self.placeholders if name in COLUMNS or name in FILE_COLUMNS}
        return {name: source for name, source in (columns | mapped).items() if name in self.placeholders}

    @property
    def scale(self) -> Scale | None:
        """The rubric's range, None if it has none (that of a managed metric is 0 to 1)."""
        if self.rating_scores:
            return min(self.rating_scores), max(self.rating_scores)
        if self.score_range is not None:
            return self.score_range.min, self.score_range.max
        match = _SCALE_IN_WORDS.search(self.template or "")
        low, high = map(float, match.groups()) if match else (0.0, 0.0)
        return (low, high) if low < high else None

    @property
    def rubric(self) -> str:
        """A template's text with a material's name for each placeholder: the material itself stays apart."""
        return _PLACEHOLDER.sub(r'(the material "\1")', self.template or "")


class Definitions(_Model):
    """A definitions file."""

    metric_prefix: StrictStr = ""
    metrics: dict[str, Definition]

    @model_validator(mode="before")
    @classmethod
    def _without_noted_metrics(cls, value: Any) -> Any:
        if isinstance(value, dict) and "metrics" in value:
            return {**value, "metrics": _noted(value["metrics"])}
        return value

    def named(self) -> dict[str, Definition]:
        """Return the definitions by the metrics' names, with a metric's own prefix or else the file's."""
        return {
            (definition.metric_prefix or self.metric_prefix) + name: definition
            for name, definition in self.metrics.items()
        }


def _noted(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: item for key, item in value.items() if not str(key).startswith("_")}


def _problem(message: str) -> PydanticCustomError:
    return PydanticCustomError("definition", "{message}", {"message": message})


# The names of the managed metrics; rubrics.json has the rubrics by which they are judged without Vertex.
MANAGED: frozenset[str] = frozenset(
    _noted(orjson.loads(resources.files(__package__).joinpath("rubrics.json").read_bytes())["metrics"])
)


def load_definitions(path: Path, columns: Collection[str] = ()) -> dict[str, Definition]:
    """Return the definitions in a file by metric name. Raises `InputError`, one line per problem.

    `columns` are further columns, of the dataset, that the metrics may use.
    """
    return definitions_of(load_json(path), str(path), columns)


def definitions_of(document: Any, where: str, columns: Collection[str] = ()) -> dict[str, Definition]:
    """Return the definitions in a JSON value by metric name. Raises `InputError`, one line per problem."""
    try:
        definitions = Definitions.model_validate(document, context=columns).named()
    except ValidationError as error:
        lines = [
            f"{where}: {'.'.join(map(str, detail['loc']))}{': ' if detail['loc'] else ''}{detail['msg']}"
            for detail in error.errors(include_url=False)[:MAX_PROBLEMS]
        ]
        raise InputError(*lines) from error
    for name in definitions:
        if not NAME.fullmatch(name):
            raise InputError(
                f'{where}: metrics: "{name}" is not a metric name; expected letters, digits, _, -, . and @'
            )
    return definitions
