"""The golden dataset: the questions that a session may answer, and what a right answer does."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from spangrade.tracer.errors import InputError

MAX_PROBLEMS = 20  # as many as a screen shows

Names = tuple[StrictStr, ...]


class _Model(BaseModel):
    """An object of the dataset file.

    Where keys are fixed (`extra="forbid"`) every other key is refused. Elsewhere further keys are the
    writer's own and kept, except one that all but spells a key of the format (`user_input`,
    `referenceTrajectory`): it is refused too, for a reference that is silently not read would leave a
    session silently green.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    # Catches a wrong letter or two, and lets `reference_trace` be a key of one's own.
    similar: ClassVar[float] = 0.85

    @model_validator(mode="before")
    @classmethod
    def _refuse_wrong_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        known = cls.model_fields
        for key in (key for key in value if key not in known):
            near = get_close_matches(key.lower().replace("-", "_"), known, n=1, cutoff=cls.similar)
            if near:
                raise PydanticCustomError(
                    "wrong_key", 'unknown key "{key}"; did you mean "{near}"?', {"key": key, "near": near[0]}
                )
            if cls.model_config["extra"] == "forbid":
                raise PydanticCustomError(
                    "wrong_key",
                    'unknown key "{key}"; the keys here are {known}',
                    {"key": key, "known": ", ".join(known)},
                )
        return value


class ReferenceToolInteraction(_Model):
    """A call that is expected. Without `input_arguments` any arguments will do."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    similar: ClassVar[float] = 0.6

    tool_name: StrictStr
    input_arguments: dict[str, Any] | None = None


class ReferenceData(_Model):
    """What a right answer does. A part that is None is not judged; custom keys are kept."""

    reference_tool_interactions: tuple[ReferenceToolInteraction, ...] | None = None
    reference_trajectory: Names | None = None
    reference_state_variables: dict[str, Any] | None = None
    reference_response: StrictStr | None = None


class GoldenQuestion(_Model):
    """One test case: the user's messages, and what the session that answers them is held against."""

    id: Annotated[StrictStr, Field(min_length=1)]
    user_inputs: Annotated[Names, Field(min_length=1)]
    agents_evaluated: Annotated[Names, Field(min_length=1)]
    metadata: dict[str, Any] = Field(default_factory=dict)
    reference_data: ReferenceData

    @model_validator(mode="before")
    @classmethod
    def _refuse_misplaced_reference(cls, value: Any) -> Any:
        for key in ReferenceData.model_fields if isinstance(value, dict) else ():
            if key in value:
                raise PydanticCustomError("wrong_key", '"{key}" belongs in reference_data', {"key": key})
        return value

    def reference(self, key: str) -> Any:
        """What is expected under a key of `reference_data`, or `user_inputs` or `agents_evaluated`.

        None if the question says nothing of it.
        """
        if key in ("user_inputs", "agents_evaluated"):
            return getattr(self, key)
        return getattr(self.reference_data, key, None)


class GoldenDataset(_Model):
    """A golden dataset file."""

    golden_questions: Annotated[tuple[GoldenQuestion, ...], Field(min_length=1)]


def load_golden(path: Path) -> GoldenDataset:
    """The golden dataset in `path`. Raises `InputError` with one line for each thing wrong in it."""
    return golden_of(load_json(path), str(path))


def load_json(path: Path) -> Any:
    """The JSON value in `path`. Raises `InputError` where it cannot be read, or is no JSON."""
    try:
        return orjson.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except orjson.JSONDecodeError as error:
        raise InputError(
            f"{path}: not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error


def golden_of(raw: Any, where: str) -> GoldenDataset:
    """The golden dataset that a JSON value is. Raises `InputError`, one line for each thing wrong."""
    try:
        dataset = GoldenDataset.model_validate(raw)
    except ValidationError as error:
        lines = [f"{where}: {problem}" for problem in _problems(raw, error)]
        if len(lines) > MAX_PROBLEMS:
            lines[MAX_PROBLEMS:] = [f"{where}: and {len(lines) - MAX_PROBLEMS} more"]
        raise InputError("\n".join(lines)) from error
    first: dict[str, int] = {}
    for index, question in enumerate(dataset.golden_questions):
        if first.setdefault(question.id, index) != index:
            raise InputError(
                f"{where}: golden_questions[{index}].id: "
                f'"{question.id}" is taken by golden_questions[{first[question.id]}]; ids must differ'
            )
    return dataset


def question_problems(raw: Any, model: type[GoldenQuestion] = GoldenQuestion) -> list[str]:
    """What is wrong with one question, each with the field it is about; nothing if it is valid."""
    try:
        model.model_validate(raw)
    except ValidationError as error:
        return _problems(raw, error)
    return []


def _problems(raw: Any, error: ValidationError) -> list[str]:
    return [
        _problem(raw, detail)
        for detail in error.errors(include_url=False)
        if detail["type"] != "too_short" or not detail["input"]  # else an echo of wrong items, not counted
    ]


_EXPECTED = {
    "string_type": "a string",
    "dict_type": "an object",
    "model_type": "an object",
    "tuple_type": "a list",
}


def _problem(raw: Any, detail: ErrorDetails) -> str:
    where, kind = _where(raw, detail["loc"]), detail["type"]
    if kind == "missing":
        return f"{where}: missing"
    if kind in ("too_short", "string_too_short"):
        return f"{where}: must not be empty"
    if kind not in _EXPECTED:
        return f"{where}: {detail['msg']}"
    expected = _EXPECTED[kind]
    if kind == "tuple_type":
        holds_objects = detail["loc"][-1] in ("golden_questions", "reference_tool_interactions")
        expected += " of objects" if holds_objects else " of strings"
    return f"{where}: expected {expected}, found {_described(detail['input'])}"


def _where(raw: Any, location: tuple[int | str, ...]) -> str:
    """The way to a value, as in `golden_questions[3] (id "q4").user_inputs`."""
    text = ""
    for depth, part in enumerate(location):
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
        if depth == 1 and location[0] == "golden_questions":
            question = raw["golden_questions"][part]
            name = question.get("id") if isinstance(question, dict) else None
            text += f' (id "{name}")' if isinstance(name, str) else ""
    return text or "the file"


def _described(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    names = {int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}
    return names[type(value)]
