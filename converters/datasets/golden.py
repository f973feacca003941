"""Golden datasets: the questions that sessions answer and what is expected of them; loading and extending."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from spangrade.converters.datasets.files import load_json, write_json
from spangrade.tracer.canonical_json import canonical
from spangrade.tracer.errors import InputError
from spangrade.tracer.span import Problem

MAX_PROBLEMS = 20  # what fits on a screen
_IN_BRACES = re.compile(r"\{([^{}]+)\}")

Names = tuple[StrictStr, ...]
Limit = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]


TrajectoryStep = str | tuple[str, ...]  # a name, or names of steps that may come in any order


def _step(value: Any) -> TrajectoryStep:
    """Return a step of a trajectory."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise PydanticCustomError(
        "step",
        "expected a string, or a list of the strings of steps in any order, found {found}",
        {"found": _described(value)},
    )


class _Model(BaseModel):
    """An object of the dataset file.

    If the keys are fixed (`extra="forbid"`), every other key is refused. Otherwise custom keys are kept,
    except one that is nearly a key of the format (`user_input`, `referenceTrajectory`): it is refused too,
    because a reference that is silently not read would make sessions pass.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    # Catches a wrong letter or two, and allows `reference_trace` as a custom key.
    similar: ClassVar[float] = 0.85

    @model_validator(mode="before")
    @classmethod
    def _refuse_wrong_keys(cls, value: Any) -> Any:
        known = cls.__pydantic_fields__
        if not isinstance(value, dict) or value.keys() <= known.keys():
            return value
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
    """An expected call, which must succeed unless `status` is "error" or `output` is given.

    Without `input_arguments` any arguments are accepted; `output` is the expected result. Successive calls
    that are `unordered` may happen in any order among themselves.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    similar: ClassVar[float] = 0.6

    tool_name: StrictStr
    input_arguments: dict[str, Any] | None = None
    status: Literal["ok", "error"] | None = None
    output: Any = None
    unordered: bool = False


Calls = Annotated[tuple[ReferenceToolInteraction, ...], Field(min_length=1)]


class ReferenceData(_Model):
    """What is expected of a session. A part that is None is not judged; custom keys are kept.

    `reference_tool_alternatives` are further lists of calls, each as good as `reference_tool_interactions`,
    and of at least one call. An empty `reference_tool_interactions` expects that no tool is called.
    A list within `reference_trajectory` holds steps that may come in any order.
    `forbidden_tools` must not be called; with `no_further_calls` no calls but the expected ones are made.
    `reference_responses` has the reply to each user input, None for any.
    `goal` is what must be so at the end, in words for a judge; of a scenario without one it is its plan.
    `forbidden_texts` must not be in any reply, whatever their case.
    `max_cost_usd` and `max_latency_s` are what the session's model calls may cost and its turns may take.
    """

    reference_tool_interactions: tuple[ReferenceToolInteraction, ...] | None = None
    reference_tool_alternatives: tuple[Calls, ...] | None = None
    forbidden_tools: Annotated[Names, Field(min_length=1)] | None = None
    no_further_calls: StrictBool | None = None
    reference_trajectory: tuple[Annotated[TrajectoryStep, BeforeValidator(_step)], ...] | None = None
    reference_state_variables: dict[str, Any] | None = None
    reference_response: StrictStr | None = None
    reference_responses: Annotated[tuple[StrictStr | None, ...], Field(min_length=1)] | None = None
    goal: StrictStr | None = None
    forbidden_texts: Annotated[Names, Field(min_length=1)] | None = None
    max_cost_usd: Limit | None = None
    max_latency_s: Limit | None = None


class EndsWhen(_Model):
    """When a simulated user ends the conversation; where one is false, the user insists and goes on.

    The agent did what the plan asks (`plan_done`), refused it for good (`refused`), or handed over to a
    person (`handed_over`). After `max_turns` the conversation ends anyway.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    similar: ClassVar[float] = 0.6

    plan_done: StrictBool = True
    refused: StrictBool = True
    handed_over: StrictBool = True
    max_turns: Annotated[StrictInt, Field(ge=1)] = 12


class Persona(_Model):
    """How a simulated user behaves, in the form of Google ADK's personas; other keys are kept."""

    description: StrictStr
    behaviors: tuple[dict[str, Any], ...] = ()


class DrillFault(_Model):
    """What the nth `call` of a tool does in a drill, in place of what it would do.

    It `fails` (with the text `value`), `times_out`, answers `late` (by `value` seconds) or `empty` (with
    `value`, null), with an `injection` (the text `value` in its result), or with the data `value` of an
    `other_customer`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    similar: ClassVar[float] = 0.6

    tool: Annotated[StrictStr, Field(min_length=1)]
    call: Annotated[StrictInt, Field(ge=1)] = 1
    kind: Literal["fails", "times_out", "late", "empty", "injection", "other_customer"]
    value: Any = None

    @model_validator(mode="after")
    def _refuse_a_wrong_value(self) -> Self:
        expected = {
            "late": ("a number of seconds", self.value is None or isinstance(self.value, int | float)),
            "injection": ("the text that the result has in it", isinstance(self.value, str)),
            "other_customer": ("the data of another customer", self.value is not None),
        }
        default = "a text", self.kind == "empty" or isinstance(self.value, str | None)
        what, fits = expected.get(self.kind, default)
        if not fits:
            raise PydanticCustomError("value", "value: expected {what}", {"what": what})
        return self


class Scenario(_Model):
    """A conversation whose user is simulated: what the user wants, knows, and is like.

    The conversation begins with `starting_prompt`. `plan` is what the user wants, in order; a name in braces
    stands for the fact of that name. `facts` are all that the user knows and may say, by name. `faults` make
    a drill of it: what tools do in place of what they would do.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    similar: ClassVar[float] = 0.6

    starting_prompt: Annotated[StrictStr, Field(min_length=1)]
    plan: tuple[Annotated[StrictStr, Field(min_length=1)], ...]
    facts: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    persona: StrictStr | Persona | None = None
    ends_when: EndsWhen = EndsWhen()
    faults: tuple[DrillFault, ...] = ()

    @property
    def filled_plan(self) -> tuple[str, ...]:
        """The parts of the plan, with the facts in place of their names in braces."""
        return tuple(_IN_BRACES.sub(lambda m: self.facts.get(m[1], m[0]), part) for part in self.plan)

    @property
    def goal(self) -> str | None:
        """What must be so at the end if a question does not say it; None without a plan."""
        wishes = "; ".join(f"{number}. {part}" for number, part in enumerate(self.filled_plan, 1))
        return f"the agent did all that the user wanted: {wishes}" if wishes else None

    @property
    def missing_facts(self) -> tuple[str, ...]:
        """The names of the facts that the plan needs and that are missing."""
        named = (name for part in self.plan for name in _IN_BRACES.findall(part))
        return tuple(dict.fromkeys(name for name in named if name not in self.facts))


def _asks_by_scenario(schema: dict[str, Any]) -> None:
    """Say in the JSON Schema of a question that it has user inputs or a scenario."""
    schema["required"].remove("user_inputs")
    schema["oneOf"] = [{"required": ["user_inputs"]}, {"required": ["scenario"]}]


class GoldenQuestion(_Model):
    """One test case: the user's messages, and what is expected of the session that answers them.

    Each of `user_values` is a name that stands for any text where `user_inputs` have it in braces. A question
    that nobody has reviewed yet has `reviewed` false. With a `scenario` the user is simulated: `user_inputs`
    is its starting prompt then, and is not given.
    """

    model_config = ConfigDict(extra="allow", frozen=True, json_schema_extra=_asks_by_scenario)

    id: Annotated[StrictStr, Field(min_length=1)]
    user_inputs: Annotated[Names, Field(min_length=1)]
    scenario: Scenario | None = None
    agents_evaluated: Annotated[Names, Field(min_length=1)]
    user_values: Names = ()
    reviewed: bool | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    reference_data: ReferenceData

    @model_validator(mode="before")
    @classmethod
    def _refuse_misplaced_reference(cls, value: Any) -> Any:
        references = ReferenceData.__pydantic_fields__
        if isinstance(value, dict) and not references.keys().isdisjoint(value):
            key = next(key for key in references if key in value)
            raise PydanticCustomError("wrong_key", '"{key}" belongs in reference_data', {"key": key})
        return value

    @model_validator(mode="before")
    @classmethod
    def _begin_with_the_starting_prompt(cls, value: Any) -> Any:
        scenario = value.get("scenario") if isinstance(value, dict) else None
        if not isinstance(scenario, Mapping) or not isinstance(scenario.get("starting_prompt"), str):
            return value if scenario is None else {"user_inputs": ("",), **value}  # its mistakes are named
        inputs = [scenario["starting_prompt"]]
        if "user_inputs" in value and list(value["user_inputs"] or ()) != inputs:
            raise PydanticCustomError("two_users", "expected user_inputs or a scenario, found both")
        return {**value, "user_inputs": inputs}

    @model_validator(mode="after")
    def _refuse_fixed_texts_of_a_scenario(self) -> Self:
        if self.scenario is not None:
            fixed = {
                "user_values": self.user_values,
                "reference_data.reference_responses": self.reference_data.reference_responses,
            }
            for key, given in fixed.items():
                if given:
                    raise PydanticCustomError(
                        "wrong_key", "{key}: a scenario has no fixed turns", {"key": key}
                    )
        return self

    @model_validator(mode="after")
    def _refuse_wrong_number_of_responses(self) -> Self:
        responses, inputs = self.reference_data.reference_responses, len(self.user_inputs)
        if responses is not None and len(responses) != inputs:
            raise PydanticCustomError(
                "wrong_number",
                "reference_data.reference_responses: expected {expected}, one for each user input "
                "(null for any), found {found}",
                {"expected": inputs, "found": len(responses)},
            )
        return self

    @property
    def accepted_calls(self) -> tuple[tuple[ReferenceToolInteraction, ...], ...]:
        """The lists of calls that are accepted: the reference's, if it has one, then its alternatives."""
        first = self.reference_data.reference_tool_interactions
        others = self.reference_data.reference_tool_alternatives or ()
        return (first or (), *others) if first is not None or not others else others

    def reference(self, key: str) -> Any:
        """Return the value of a key of `reference_data` or, of those of the question, of what it asks.

        These are `user_inputs`, `scenario` and `agents_evaluated`.

        None if the question does not have it, if `no_further_calls` is false, or if any reply will do. Of
        `reference_tool_interactions` that is the first alternative if only alternatives are given.
        """
        if key == "reference_tool_interactions" and self.reference_data.reference_tool_alternatives:
            return self.accepted_calls[0]
        if key in ("user_inputs", "scenario", "agents_evaluated"):
            return getattr(self, key)
        value = getattr(self.reference_data, key, None)
        if key == "goal" and value is None and self.scenario is not None:
            return self.scenario.goal
        is_nothing = (key == "no_further_calls" and value is False) or (
            key == "reference_responses" and value is not None and set(value) == {None}
        )
        return None if is_nothing else value


class GoldenDataset(_Model):
    """A golden dataset file."""

    golden_questions: Annotated[tuple[GoldenQuestion, ...], Field(min_length=1)]


def load_golden(path: Path) -> GoldenDataset:
    """Return the golden dataset in a file. Raises InputError with one line for each mistake in it."""
    return taken_golden(load_json(path), str(path))


NO_QUESTIONS = GoldenDataset.model_construct(golden_questions=())  # sessions are graded without a dataset


def golden_of(raw: Any, where: str) -> GoldenDataset:
    """Return the golden dataset in a JSON value, which stays as it is.

    Raises InputError with one line for each mistake in it.
    """
    if isinstance(raw, dict) and isinstance(raw.get("golden_questions"), list):
        raw = {**raw, "golden_questions": list(raw["golden_questions"])}
    return taken_golden(raw, where)


def taken_golden(raw: Any, where: str) -> GoldenDataset:
    """Return the golden dataset in a JSON value, which loses its questions: nobody holds them twice then.

    Raises InputError with one line for each mistake in it.
    """
    if isinstance(raw, list) and raw and all(isinstance(turn, dict) and "query" in turn for turn in raw):
        raise InputError(
            f"{where}: a conversation log; `spangrade convert test-to-golden` makes a golden question of it"
        )
    try:
        dataset = GoldenDataset.model_validate(_without_questions(raw))
    except ValidationError as error:
        lines = [f"{where}: {problem}" for problem in _problems(raw, error)]
        if len(lines) > MAX_PROBLEMS:
            lines[MAX_PROBLEMS:] = [f"{where}: and {len(lines) - MAX_PROBLEMS} more"]
        raise InputError(*lines) from error
    first: dict[str, int] = {}
    for index, question in enumerate(dataset.golden_questions):
        if first.setdefault(question.id, index) != index:
            raise InputError(
                f"{where}: golden_questions[{index}].id: "
                f'"{question.id}" is taken by golden_questions[{first[question.id]}]; ids must differ'
            )
    return dataset


def _without_questions(raw: Any) -> Any:
    """Return a dataset whose questions are taken out of `raw` one by one; their ids stay, for messages."""
    questions = raw.get("golden_questions") if isinstance(raw, dict) else None
    if not isinstance(questions, list) or not questions:
        return raw

    def taken() -> Iterator[Any]:
        for place, question in enumerate(questions):
            questions[place] = {"id": question.get("id")} if isinstance(question, dict) else None
            yield question

    return {**raw, "golden_questions": taken()}


def existing(path: Path) -> tuple[Any, GoldenDataset | None]:
    """Return the golden dataset in a file, as JSON and as models; an empty one and None without a file.

    Raises InputError if the file is not a golden dataset, so that nothing else is ever overwritten.
    """
    if not path.exists():
        return {"golden_questions": []}, None
    raw = load_json(path)
    if isinstance(raw, dict) and raw.get("golden_questions") == []:
        return raw, None
    try:
        return raw, golden_of(raw, str(path))
    except InputError as error:
        raise InputError(*error.lines, f"{path}: not a golden dataset, so it is left unchanged") from error


def append(path: Path, questions: Iterable[Mapping[str, Any]]) -> tuple[int, list[Problem]]:
    """Add the questions that are valid and have a new id to a golden file, which may not exist yet.

    Return the number of questions added, and the problems: mistakes in the others, and added questions with
    the same user inputs as another. Raises InputError as `existing` does, and leaves the file unchanged.
    """
    raw, dataset = existing(path)
    known = dataset.golden_questions if dataset else ()
    by_id = {question.id for question in known}
    by_inputs = {_asked(question.model_dump(mode="json")): question.id for question in known}
    added: list[Mapping[str, Any]] = []
    problems: list[Problem] = []
    for question in questions:
        where = f'{path}: id "{question["id"]}"'
        mistakes = ["another question has it"] if question["id"] in by_id else question_problems(question)
        problems += (Problem(where, text) for text in mistakes)
        if mistakes:
            continue
        same = by_inputs.setdefault(_asked(question), question["id"])
        if same != question["id"]:
            text = f'has the same user inputs as "{same}"; a session may answer either'
            problems.append(Problem(where, text, dropped=False))
        by_id.add(question["id"])
        added.append(question)
    if added:
        write_json(path, {**raw, "golden_questions": [*raw["golden_questions"], *added]})
    return len(added), problems


def _asked(question: Mapping[str, Any]) -> str:
    """Return what a question asks, as one text."""
    scenario = question.get("scenario")
    return canonical(list(question["user_inputs"]) if scenario is None else scenario)


def new_questions(
    path: Path, questions: Iterable[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[Problem]]:
    """Return the questions whose user inputs a golden file does not have yet, each with an id of its own.

    The others are named in problems that drop nothing. Raises InputError as `existing` does.
    """
    _, dataset = existing(path)
    known = dataset.golden_questions if dataset else ()
    ids = {question.id for question in known}
    inputs = {_asked(question.model_dump(mode="json")): question.id for question in known}
    new: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for question in questions:
        if same := inputs.get(_asked(question)):
            text = f'"{same}" has the same user inputs and is kept as it is'
            problems.append(Problem(f'{path}: id "{question["id"]}"', text, dropped=False))
            continue
        name, number = question["id"], 2
        while name in ids:
            name, number = f"{question['id']}-{number}", number + 1
        ids.add(name)
        new.append({**question, "id": name})
    return new, problems


def set_reviewed(path: Path, question_id: str, by: str, *, accepted: bool) -> None:
    """Mark a question of a golden file as reviewed by someone; one that is not accepted is taken out.

    Raises InputError as `existing` does.
    """
    raw, _ = existing(path)
    questions = []
    for question in raw["golden_questions"]:
        if question["id"] != question_id:
            questions.append(question)
        elif accepted:
            metadata = {**question.get("metadata", {}), "reviewed_by": by}
            questions.append({**question, "reviewed": True, "metadata": metadata})
    write_json(path, {**raw, "golden_questions": questions})


def question_problems(raw: Any, model: type[GoldenQuestion] = GoldenQuestion) -> list[str]:
    """Return the mistakes in one question, each with its field; none if it is valid."""
    try:
        model.model_validate(raw)
    except ValidationError as error:
        return _problems(raw, error)
    return []


def _problems(raw: Any, error: ValidationError) -> list[str]:
    return [
        _problem(raw, detail)
        for detail in error.errors(include_url=False)
        if detail["type"] != "too_short" or not detail["input"]  # else it repeats the mistakes of the items
    ]


_EXPECTED = {
    "string_type": "a string",
    "dict_type": "an object",
    "model_type": "an object",
    "tuple_type": "a list",
    "float_type": "a number",
    "bool_type": "true or false",
    "int_type": "a whole number",
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
        holds_objects = detail["loc"][-1] in ("golden_questions", "reference_tool_interactions") or (
            "reference_tool_alternatives" in detail["loc"] and isinstance(detail["loc"][-1], int)
        )
        expected += " of objects" if holds_objects else " of strings"
    return f"{where}: expected {expected}, found {_described(detail['input'])}"


def _where(raw: Any, location: tuple[int | str, ...]) -> str:
    """Return the path of a value, as in `golden_questions[3] (id "q4").user_inputs`."""
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
