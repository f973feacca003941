"""Golden datasets: the questions that sessions answer, with their references; loading and extending."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from spangrade.converters.datasets.call_rules import (
    CallsBefore,
    CallsInOrder,
    FailedCalls,
    ForbiddenTools,
    FurtherCalls,
    MostCalls,
    ToldValues,
    kind_of,
    not_blank,
)
from spangrade.converters.datasets.files import write_json
from spangrade.converters.datasets.forms import (
    ANY,
    PATTERN,
    described,
    is_form,
    is_pattern,
    matches_all,
    problem_of,
    word_of,
)
from spangrade.converters.datasets.golden_text import OBJECT, Form, form_of, read_written
from spangrade.converters.datasets.recognized import tool_of_content
from spangrade.tracer.base.canonical_json import canonical, dumps
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.span import Problem

MAX_PROBLEMS = 20  # what fits on a screen
_AS_TEXT, _AS_OBJECT = "<text>", "<object>"  # the forms of a text, in the place of a mistake
_LATEST_S = 86_400  # after which a tool of a drill may answer
# What other tools call what a question or its references have here.
WORDS_OF_OTHERS = MappingProxyType(
    {
        "input": "user_inputs",
        "query": "user_inputs",
        "question": "user_inputs",
        "prompt": "user_inputs",
        "vars": "user_inputs, with the values in their places",
        "target": "reference_response",
        "expected_output": "reference_response",
        "expected": "reference_response",
        "ground_truth": "reference_response",
        "assert": "required_texts, forbidden_texts, max_cost_usd, max_latency_s or reference_response",
        "reference": "reference_response",
        "expected_response": "reference_response",
        "expected_answer": "reference_response",
        "expected_result": "reference_response",
        "final_response": "reference_response",
        "ideal": "reference_response",
        "expected_outcome": "goal",
        "expected_tools": "reference_tool_interactions",
        "expected_tool_calls": "reference_tool_interactions",
        "expected_tool_use": "reference_tool_interactions",
        "expected_state": "reference_state_variables",
        "trajectory": "reference_trajectory",
        "tags": "metadata",
    }
)
_INPUTS_OF_OTHERS = {word for word, name in WORDS_OF_OTHERS.items() if name.startswith("user_inputs")}
_NOT_REFERENCES = ("user_inputs", "metadata")  # with which what other words mean begins
SESSION_INPUT = "session_input"  # what ADK's eval sets say of a session, which `convert evalset` reads
_NEAR = 0.75  # how alike an own key and that of a reference are, for one to be meant by the other
_IN_BRACES = re.compile(r"\{([^{}]+)\}")

Names = tuple[StrictStr, ...]
_ForbiddenText = Annotated[StrictStr, AfterValidator(not_blank)]
Limit = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]


TrajectoryStep = str | tuple[str, ...]  # a name, or names of steps that may come in any order


def _step(value: Any) -> TrajectoryStep:
    """Return a step of a trajectory."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        return tuple(name.strip() for name in value)
    raise PydanticCustomError(
        "step",
        "expected a string, or a list of the strings of steps in any order, found {found}",
        {"found": kind_of(value)},
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
    short_names: ClassVar[Mapping[str, str]] = MappingProxyType({})  # to the names of the fields
    also: ClassVar[tuple[str, ...]] = ()  # keys that are read here, too

    @model_validator(mode="before")
    @classmethod
    def _refuse_wrong_keys(cls, value: Any) -> Any:
        known = cls.__pydantic_fields__
        if not isinstance(value, dict) or value.keys() <= known.keys():
            return value
        for short, name in cls.short_names.items():
            if short in value and name in value:
                raise PydanticCustomError(
                    "wrong_key",
                    '"{short}" and "{name}" are one field: expected one of them',
                    {"short": short, "name": name},
                )
        value = {cls.short_names.get(key, key): part for key, part in value.items()}
        for key in (key for key in value if key not in known):
            name = key.lower().replace("-", "_")
            near = get_close_matches(name, (*known, *cls.also), n=1, cutoff=cls.similar)
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


def _checked(value: Any) -> Any:
    """Return an expected value. Raises if a `$` word in it is not as it must be."""
    if problem := problem_of(value):
        raise PydanticCustomError("form", "{problem}", {"problem": problem})
    return value


Expected = Annotated[Any, AfterValidator(_checked)]  # JSON that may have `$` words
ExpectedValues = Annotated[dict[str, Any], AfterValidator(_checked)]


class ReferenceToolInteraction(_Model):
    """An expected call, which must succeed unless `status` is "error" or `output` is given.

    Without `input_arguments` any arguments are accepted; `output` is the expected result. Both may have the
    `$` words of docs/golden_questions.md. `match` says how the arguments of this call are compared.
    Successive calls that are `unordered` may happen in any order among themselves.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    similar: ClassVar[float] = 0.6
    short_names: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"name": "tool_name", "arguments": "input_arguments", "result": "output"}
    )

    tool_name: StrictStr
    input_arguments: ExpectedValues | None = None
    match: Literal["subset", "exact", "superset", "ignore"] | None = None
    status: Literal["ok", "error"] | None = None
    output: Expected = None
    unordered: bool = False


Calls = Annotated[tuple[ReferenceToolInteraction, ...], Field(min_length=1)]


class ExpectedReply(_Model):
    """A reply that is compared with `text` by `match`.

    `exact`: it is this text, white space aside. `contains`: it has it, as in `required_texts`. `pattern`: a
    search of this regular expression finds something in it. `meaning`, the default: it says the same, which a
    judge decides where the texts differ.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    similar: ClassVar[float] = 0.6

    text: Annotated[StrictStr, AfterValidator(not_blank)]
    match: Literal["exact", "contains", "pattern", "meaning"] | None = None

    @model_validator(mode="after")
    def _refuse_a_wrong_pattern(self) -> Self:
        if self.match == "pattern":
            if not is_pattern(self.text):
                raise PydanticCustomError("pattern", "text: expected a regular expression of Python")
            _says_something(self.text)
        return self


def _says_something(pattern: str) -> str:
    """Return a pattern that a reply must have. Raises for one that every reply has."""
    if matches_all(pattern):
        raise PydanticCustomError(
            "pattern",
            "{pattern} matches the empty text, and so every reply; write what a reply must have, or "
            "^(?!.*TEXT) for what it must not have",
            {"pattern": dumps(pattern)},
        )
    return pattern


TextForm = str | Mapping[str, Any]  # a text, `{"$pattern": …}`, or `{"$any": […]}` of these


def _text_form(value: Any) -> TextForm:
    """Return a text that a reply must have, or a form of texts. Raises for anything else."""
    word = word_of(value) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        return not_blank(value)
    if word == ANY and isinstance(value[ANY], list | tuple) and value[ANY]:
        return {ANY: [_text_form(one) for one in value[ANY]]}
    if word == PATTERN and is_pattern(value[PATTERN]):
        return {PATTERN: _says_something(value[PATTERN])}
    expected = 'a string, {"$any": [strings]} or {"$pattern": a regular expression of Python}'
    raise PydanticCustomError(
        "text", "expected {expected}, found {found}", {"expected": expected, "found": kind_of(value)}
    )


class RequiredText(_Model):
    """A text that a reply must have, that of `turn` (from 1) if it is given.

    In its place `{"$any": […]}` has several, of which one will do, and `{"$pattern": …}` is searched.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    similar: ClassVar[float] = 0.6

    text: Annotated[TextForm, PlainValidator(_text_form), WithJsonSchema({"type": ["string", "object"]})]
    turn: Annotated[StrictInt, Field(ge=1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _take_a_form_alone(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, dict) and is_form(value) else value


def text_of(expected: str | ExpectedReply | RequiredText) -> str:
    """Return the text of an expected text, a form in words."""
    text = expected if isinstance(expected, str) else expected.text
    return text if isinstance(text, str) else described(text)


def _text_or_object(value: Any) -> str:
    return _AS_OBJECT if isinstance(value, dict | BaseModel) else _AS_TEXT


Reply = Annotated[
    Annotated[StrictStr, Tag(_AS_TEXT)] | Annotated[ExpectedReply, Tag(_AS_OBJECT)],
    Discriminator(_text_or_object),
]
TextOfReply = Annotated[
    Annotated[StrictStr, AfterValidator(not_blank), Tag(_AS_TEXT)] | Annotated[RequiredText, Tag(_AS_OBJECT)],
    Discriminator(_text_or_object),
]


class ReferenceData(_Model):
    """The references of a question. A reference that is None is not judged; custom keys are kept.

    `custom` has the user's own keys by any name; metrics read them like custom keys beside `custom`, but for
    those that have the name of a reference.

    `reference_tool_alternatives` are further lists of at least one call, each as good as
    `reference_tool_interactions`. An empty `reference_tool_interactions` expects that no tool is called.
    A list within `reference_trajectory` holds steps that may come in any order. With `trajectory`
    "major_steps" steps that it does not name are free.
    `forbidden_tools` must not be called; with `no_further_calls` no calls but the expected ones are made, or
    none of the tools that it lists. `at_most` has the most calls of a tool, and `before` the tools that need
    an earlier call of another. With `failed_calls` "ignore" these three do not count a call that failed.
    `never_after` has tools that must not be called after another, and `followed_by` those of which a call
    must come after each call of another that did not fail. `reply_has` are values of results that a later
    reply must have.
    With `requested_calls` "count" a call that a model requested and nothing executes counts as made.
    `reference_responses` has the reply to each user input, None for any. A reply is a text, or an object with
    the `text` and how to `match` it. Each of `required_texts` is in a reply, or in that of its `turn`;
    `{"$any": […]}` is one of several, `{"$pattern": …}` is searched.
    A name in `reference_state_variables` may be a path (`cart.items[0].sku`); with `reference_state_exact`
    the final state has no other values.
    `goal` is what must be so at the end, in words for a judge; of a scenario without one it is its plan.
    `forbidden_texts` must not be in any reply, whatever their case. `assertions` are statements about the
    conversation; a judge says of each whether it holds.
    `max_cost_usd` and `max_latency_s` are what the session's model calls may cost and its turns may take.
    """

    reference_tool_interactions: tuple[ReferenceToolInteraction, ...] | None = None
    reference_tool_alternatives: tuple[Calls, ...] | None = None
    forbidden_tools: ForbiddenTools = None
    no_further_calls: FurtherCalls = None
    at_most: MostCalls = None
    before: CallsBefore = None
    never_after: CallsInOrder = None
    followed_by: CallsInOrder = None
    reply_has: ToldValues = None
    failed_calls: FailedCalls | None = None
    requested_calls: Literal["count"] | None = None
    reference_trajectory: tuple[Annotated[TrajectoryStep, BeforeValidator(_step)], ...] | None = None
    trajectory: Literal["major_steps"] | None = None
    reference_state_variables: ExpectedValues | None = None
    reference_state_exact: StrictBool | None = None
    reference_response: Reply | None = None
    reference_responses: Annotated[tuple[Reply | None, ...], Field(min_length=1)] | None = None
    required_texts: Annotated[tuple[TextOfReply, ...], Field(min_length=1)] | None = None
    goal: StrictStr | None = None
    forbidden_texts: Annotated[tuple[_ForbiddenText, ...], Field(min_length=1)] | None = None
    assertions: Annotated[Names, Field(min_length=1)] | None = None
    max_cost_usd: Limit | None = None
    max_latency_s: Limit | None = None
    custom: dict[str, Any] | None = None


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


def _is_late(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LATEST_S


class DrillFault(_Model):
    """The fault of a tool's nth `call` in a drill.

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
            "late": (f"a number of seconds, 0 to {_LATEST_S:,}", self.value is None or _is_late(self.value)),
            "injection": ("the text that the result has in it", isinstance(self.value, str)),
            "other_customer": ("the data of another customer", self.value is not None),
        }
        default = "a text", self.kind == "empty" or isinstance(self.value, str | None)
        what, fits = expected.get(self.kind, default)
        if not fits:
            raise PydanticCustomError("value", "value: expected {what}", {"what": what})
        return self


class Scenario(_Model):
    """A simulated user's plan, knowledge and manner, for a conversation.

    The conversation begins with `starting_prompt`. `plan` is what the user wants, in order; a name in braces
    stands for the fact of that name. `facts` are all that the user knows and may say, by name. `faults` make
    a drill of it: what tools do in place of what they would do. A last message of the user that has the
    `stop_word` hangs up, and needs no reply.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    similar: ClassVar[float] = 0.6

    starting_prompt: Annotated[StrictStr, Field(min_length=1)]
    plan: tuple[Annotated[StrictStr, Field(min_length=1)], ...]
    facts: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    persona: StrictStr | Persona | None = None
    ends_when: EndsWhen = EndsWhen()
    faults: tuple[DrillFault, ...] = ()
    stop_word: Annotated[StrictStr, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _refuse_two_faults_of_a_call(self) -> Self:
        calls = Counter((fault.tool, fault.call) for fault in self.faults)
        (tool, call), number = calls.most_common(1)[0] if calls else (("", 0), 0)
        if number > 1:
            raise PydanticCustomError(
                "faults",
                "faults: expected one fault of call {call} of {tool}, found {number}",
                {"call": call, "tool": tool, "number": number},
            )
        return self

    @property
    def filled_plan(self) -> tuple[str, ...]:
        """The parts of the plan, with the facts in place of their names in braces."""
        return tuple(_IN_BRACES.sub(lambda m: self.facts.get(m[1], m[0]), part) for part in self.plan)

    @property
    def goal(self) -> str | None:
        """The goal that a judge checks at the end if the question has none; None without a plan."""
        wishes = "; ".join(f"{number}. {part}" for number, part in enumerate(self.filled_plan, 1))
        return f"the agent did all that the user wanted: {wishes}" if wishes else None

    @property
    def missing_facts(self) -> tuple[str, ...]:
        """The names of the facts that the plan needs and that are missing."""
        named = (name for part in self.plan for name in _IN_BRACES.findall(part))
        return tuple(dict.fromkeys(name for name in named if name not in self.facts))


def _asks_once(schema: dict[str, Any]) -> None:
    """Say in the JSON Schema of a question that it has user inputs, a scenario, or neither."""
    schema["not"] = {"required": ["user_inputs", "scenario"]}


_ASKED = frozenset({"id", "user_inputs", "scenario", "agents_evaluated"})
# The keys that a question may have without a value of their own in `reference_data`.
_OF_QUESTIONS = (*_ASKED, "goal", "reference_tool_interactions")
# The references with a value that says nothing.
_MAY_BE_NOTHING = frozenset({"no_further_calls", "reference_state_exact", "reference_responses"})


class GoldenQuestion(_Model):
    """One test case: the user's messages, and the references for the session that answers them.

    Each of `user_values` is a name that stands for any text where `user_inputs` have it in braces. A question
    that nobody has reviewed yet has `reviewed` false. With a `scenario` the user is simulated: `user_inputs`
    is its starting prompt then, and is not given. A question with neither is matched by its id alone.
    """

    model_config = ConfigDict(extra="allow", frozen=True, json_schema_extra=_asks_once)
    also: ClassVar[tuple[str, ...]] = tuple(ReferenceData.__pydantic_fields__)

    id: Annotated[StrictStr, Field(min_length=1)]
    user_inputs: Annotated[Names, Field(min_length=1)] = ()
    scenario: Scenario | None = None
    agents_evaluated: Annotated[Names, Field(min_length=1)] = ()
    user_values: Names = ()
    reviewed: bool | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    reference_data: ReferenceData = ReferenceData()

    @model_validator(mode="before")
    @classmethod
    def _gather_references(cls, value: Any) -> Any:
        """Move the references of a question into `reference_data`, and make one user input a list of one."""
        if not isinstance(value, dict):
            return value
        if isinstance(value.get("user_inputs"), str):
            value = {**value, "user_inputs": [value["user_inputs"]]}
        references = {key: value[key] for key in ReferenceData.__pydantic_fields__.keys() & value.keys()}
        known = value.get("reference_data", {})
        if not references or not isinstance(known, dict):
            return value
        for key in references.keys() & known.keys():
            raise PydanticCustomError(
                "wrong_key", '"{key}" is in the question and in reference_data: expected one', {"key": key}
            )
        rest = {key: part for key, part in value.items() if key not in references}
        return {**rest, "reference_data": {**known, **references}}

    @model_validator(mode="before")
    @classmethod
    def _begin_with_the_starting_prompt(cls, value: Any) -> Any:
        scenario = value.get("scenario") if isinstance(value, dict) else None
        if not isinstance(scenario, Mapping) or not isinstance(scenario.get("starting_prompt"), str):
            return value  # its mistakes are named
        inputs = [scenario["starting_prompt"]]
        if "user_inputs" in value and list(value["user_inputs"] or ()) != inputs:
            raise PydanticCustomError("two_users", "expected user_inputs or a scenario, found both")
        return {**value, "user_inputs": inputs}

    @model_validator(mode="after")
    def _ask_or_expect_something(self) -> Self:
        if not self.user_inputs:
            expects = self.reference_data.model_fields_set or self.model_extra
            if not expects or _INPUTS_OF_OTHERS & (self.model_extra or {}).keys():
                raise PydanticCustomError("missing_inputs", "missing")
        return self

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
        if responses is not None and inputs and len(responses) != inputs:
            raise PydanticCustomError(
                "wrong_number",
                "reference_data.reference_responses: expected {expected}, one for each user input "
                "(null for any), found {found}",
                {"expected": inputs, "found": len(responses)},
            )
        return self

    @model_validator(mode="after")
    def _refuse_a_turn_beyond_the_last(self) -> Self:
        for index, one in enumerate(self.reference_data.required_texts or ()):
            if isinstance(one, RequiredText) and self.scenario is None and self.user_inputs:
                last, turn = len(self.user_inputs), one.turn or 1
                if turn > last:
                    raise PydanticCustomError(
                        "turn",
                        "reference_data.required_texts[{index}].turn: expected 1 to {last}, found {turn}",
                        {"index": index, "last": last, "turn": turn},
                    )
        return self

    @property
    def accepted_calls(self) -> tuple[tuple[ReferenceToolInteraction, ...], ...]:
        """The lists of calls that are accepted: the reference's, if it has one, then its alternatives."""
        first = self.reference_data.reference_tool_interactions
        others = self.reference_data.reference_tool_alternatives or ()
        return (first or (), *others) if first is not None or not others else others

    @property
    def own_keys(self) -> tuple[str, ...]:
        """The keys that are not of the format: those of `reference_data`, then those of the question."""
        keys = (*(self.reference_data.model_extra or ()), *(self.model_extra or ()))
        return tuple(key for key in keys if key != SESSION_INPUT)

    @property
    def given(self) -> frozenset[str]:
        """The keys of which `reference` returns a value."""
        data = self.reference_data
        keys = [key for key, value in data.__dict__.items() if value is not None]
        others = {*_MAY_BE_NOTHING.intersection(keys), *_OF_QUESTIONS}
        others.update(*filter(None, (data.model_extra, data.custom, self.model_extra)))
        given = {key for key in others if self.reference(key) is not None}
        return frozenset(given.union(keys) - (others - given))

    def reference(self, key: str) -> Any:
        """Return the value of a key of `reference_data` or of the question's own keys.

        These are `id`, `user_inputs`, `scenario` and `agents_evaluated`. A custom key may be at either place,
        or in `custom`, where no key is a reference of the format.

        None if the question does not have it, if what may be true is false, or if any reply will do. Of
        `reference_tool_interactions` that is the first alternative if only alternatives are given.
        """
        if key in _ASKED:
            return getattr(self, key) or None
        data = self.reference_data
        if key == "reference_tool_interactions" and data.reference_tool_alternatives:
            return self.accepted_calls[0]
        value = getattr(data, key, None)
        if value is None:
            return self._elsewhere(key)
        is_nothing = (value is False and key in ("no_further_calls", "reference_state_exact")) or (
            key == "reference_responses" and set(value) == {None}
        )
        return None if is_nothing else value

    def _elsewhere(self, key: str) -> Any:
        """Return the value of a key that `reference_data` does not have itself."""
        custom = None if key in _OURS else self.reference_data.custom
        for others in (self.model_extra, custom):
            if others and others.get(key) is not None:
                return others[key]
        return self.scenario.goal if key == "goal" and self.scenario is not None else None


# What is read as a reference, or as what a shipped metric needs, is not one of the user's in `custom`.
_OURS = frozenset({*ReferenceData.__pydantic_fields__, *GoldenQuestion.__pydantic_fields__, "rubrics"})


@cache
def meant_reference(key: str) -> str | None:
    """Return the reference that a custom key seems to mean: it is another tool's word for it, or near it.

    None if it seems to mean none.
    """
    name = key.lower().replace("-", "_")
    word = WORDS_OF_OTHERS.get(name)
    if word is not None:
        return None if word.startswith(_NOT_REFERENCES) else word
    known = (one for one in ReferenceData.__pydantic_fields__ if one != "custom")
    return next(iter(get_close_matches(name, known, n=1, cutoff=_NEAR)), None)


def fields_of_questions() -> dict[str, Any]:
    """Return the JSON Schemas of the fields of a question, its references among them."""
    models = (ReferenceData, GoldenQuestion)
    return {name: field for one in models for name, field in one.model_json_schema()["properties"].items()}


class GoldenDataset(_Model):
    """A golden dataset file."""

    golden_questions: Annotated[tuple[GoldenQuestion, ...], Field(min_length=1)]


def load_golden(path: Path) -> GoldenDataset:
    """Return the golden dataset in a file. Raises InputError with one line for each mistake in it."""
    content, form = read_written(path, fields_of_questions)
    return taken_golden(content, str(path), form)


NO_QUESTIONS = GoldenDataset.model_construct(golden_questions=())  # sessions are graded without a dataset


def golden_of(raw: Any, where: str) -> GoldenDataset:
    """Return the golden dataset in a JSON value, which stays as it is.

    Raises InputError with one line for each mistake in it.
    """
    if isinstance(raw, list):
        raw = list(raw)
    elif isinstance(raw, dict) and isinstance(raw.get("golden_questions"), list):
        raw = {**raw, "golden_questions": list(raw["golden_questions"])}
    return taken_golden(raw, where)


def taken_golden(raw: Any, where: str, form: Form | None = None) -> GoldenDataset:
    """Return the golden dataset in a value, which loses its questions: nobody holds them twice then.

    It is an object with `golden_questions`, a list of questions, or one. Raises InputError with one line for
    each mistake in it, what the words of other tools are called here and, where the form of the file or of a
    question is another one, an example of the form.
    """
    form = form or form_of(raw)
    if isinstance(raw, dict) and "golden_questions" not in raw and ("id" in raw or "user_inputs" in raw):
        raw = [raw]
    if isinstance(raw, list):
        raw = {"golden_questions": raw}
    tool = tool_of_content(raw.get("golden_questions", raw) if isinstance(raw, dict) else raw)
    words = _words_of_others(raw)
    try:
        dataset = GoldenDataset.model_validate(_without_questions(raw))
    except ValidationError as error:
        other_tool = _CONVERTED.get(tool or "")
        problems = _problems(raw, error, form) if other_tool is None else [other_tool]
        lines = [f"{where}: {problem}" for problem in problems]
        if len(lines) > MAX_PROBLEMS:
            lines[MAX_PROBLEMS:] = [f"{where}: and {len(lines) - MAX_PROBLEMS} more"]
        example = ("expected, for example:", *form.example) if words or _of_form(error) else ()
        raise InputError(*lines, *words, *example) from error
    first: dict[str, int] = {}
    for index, question in enumerate(dataset.golden_questions):
        if first.setdefault(question.id, index) != index:
            raise InputError(
                f'{where}: {form.place(index)}.id: "{question.id}" is taken by '
                f"{form.place(first[question.id])}; ids must differ"
            )
    return dataset


def _of_form(error: ValidationError) -> bool:
    """Return whether the file, a question, or a field of every question is missing or of another type."""
    return any(
        (mistake["type"] in ("missing", "missing_inputs") or mistake["type"].endswith("_type"))
        and mistake["loc"][2:3] in ((), ("id",), ("user_inputs",))
        for mistake in error.errors(include_url=False)
    )


# What a dataset of another tool is, and how to convert it.
_CONVERTED = MappingProxyType(
    {
        "promptfoo": "of promptfoo; `spangrade convert FILE` makes golden questions of it",
        "log": "a conversation log; `spangrade convert FILE` makes a golden question of it",
        "inspect": "of Inspect; `spangrade convert FILE` makes golden questions of it",
        "deepeval": "of DeepEval; `spangrade convert FILE` makes golden questions of it",
    }
)


def _words_of_others(raw: Any) -> list[str]:
    """Return a line for each word of another tool in a dataset and its first questions."""
    questions = raw.get("golden_questions") if isinstance(raw, dict) else None
    objects = [raw, *(questions[:MAX_PROBLEMS] if isinstance(questions, list) else ())]
    found = {key for one in objects if isinstance(one, dict) for key in WORDS_OF_OTHERS.keys() & one.keys()}
    return [f'"{word}" is here {name}' for word, name in WORDS_OF_OTHERS.items() if word in found]


def _without_questions(raw: Any) -> Any:
    """Return a dataset whose questions are taken out of `raw` one by one; keys for messages stay."""
    questions = raw.get("golden_questions") if isinstance(raw, dict) else None
    if not isinstance(questions, list) or not questions:
        return raw

    def taken() -> Iterator[Any]:
        for place, question in enumerate(questions):
            questions[place] = _for_messages(question) if isinstance(question, dict) else None
            yield question

    return {**raw, "golden_questions": taken()}


def _for_messages(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a question that a message names: its id and the keys of its `reference_data`."""
    references = question.get("reference_data")
    keys = {"reference_data": dict.fromkeys(references)} if isinstance(references, dict) else {}
    return {"id": question.get("id"), **keys}


def existing(path: Path) -> tuple[Any, GoldenDataset | None]:
    """Return the golden dataset in a file, as JSON and as models; an empty one and None without a file.

    Raises InputError if the file is not a golden dataset, so that nothing else is ever overwritten.
    """
    if not path.exists():
        return {"golden_questions": []}, None
    raw, form = read_written(path, fields_of_questions)
    if isinstance(raw, dict) and raw.get("golden_questions") == []:
        return raw, None
    if isinstance(raw, list):
        raw = {"golden_questions": raw}
    try:
        dataset = golden_of(raw, str(path))
    except InputError as error:
        raise InputError(*error.lines, f"{path}: not a golden dataset, so it is left unchanged") from error
    if form.name != "JSON":
        raise InputError(f"{path}: {form.name}: only a golden file of JSON is written; it is left unchanged")
    return raw, dataset


def append(path: Path, questions: Iterable[Mapping[str, Any]]) -> tuple[int, list[Problem]]:
    """Add the questions that are valid and have a new id to a golden file, which may not exist yet.

    Return the number of questions added, and the problems: mistakes in the others, and added questions with
    the same user inputs as another. Raises InputError as `existing` does, and leaves the file unchanged.
    """
    raw, dataset = existing(path)
    by_id, by_inputs = _ids_and_inputs(dataset)
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


def _ids_and_inputs(dataset: GoldenDataset | None) -> tuple[set[str], dict[str, str]]:
    """Return the ids of the questions of a dataset, and their ids by their user inputs."""
    known = dataset.golden_questions if dataset else ()
    by_inputs = {_asked(question.model_dump(mode="json")): question.id for question in known}
    return {question.id for question in known}, by_inputs


def distinct_name(name: str, taken: Container[str]) -> str:
    """Return a name that is not taken: as it is, else with a number behind it, as in `refund-2`."""
    numbered = (f"{name}-{number}" for number in count(2))
    return name if name not in taken else next(one for one in numbered if one not in taken)


def _asked(question: Mapping[str, Any]) -> str:
    """Return a question's user inputs as one text; without any, one that no other question equals."""
    scenario, inputs = question.get("scenario"), list(question.get("user_inputs") or ())
    return canonical(scenario or inputs or {"id": question["id"]})


def new_questions(
    path: Path, questions: Iterable[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[Problem]]:
    """Return the questions whose user inputs a golden file does not have yet, each with an id of its own.

    The others are named in problems that drop nothing. Raises InputError as `existing` does.
    """
    _, dataset = existing(path)
    ids, inputs = _ids_and_inputs(dataset)
    new: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for question in questions:
        if same := inputs.get(_asked(question)):
            text = f'"{same}" has the same user inputs and is kept as it is'
            problems.append(Problem(f'{path}: id "{question["id"]}"', text, dropped=False))
            continue
        name = distinct_name(question["id"], ids)
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


def _problems(raw: Any, error: ValidationError, form: Form = OBJECT) -> list[str]:
    return [
        _problem(raw, detail, form)
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


def _problem(raw: Any, detail: ErrorDetails, form: Form) -> str:
    where, kind = _where(raw, detail["loc"], form), detail["type"]
    if kind == "missing":
        return f"{where}: missing"
    if kind == "missing_inputs":
        return f"{where}.user_inputs: missing"
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
    return f"{where}: expected {expected}, found {kind_of(detail['input'])}"


def _where(raw: Any, location: tuple[int | str, ...], form: Form) -> str:
    """Return the path of a value as it was written, as in `golden_questions[3] (id "q4").user_inputs`."""
    text, question = "", raw
    if location[:1] == ("golden_questions",) and len(location) > 1 and isinstance(location[1], int):
        question = raw["golden_questions"][location[1]]
        name = question.get("id") if isinstance(question, dict) else None
        text = form.place(location[1]) + (f' (id "{name}")' if isinstance(name, str) else "")
        location = location[2:]
    if location[:1] == ("reference_data",) and len(location) > 1 and isinstance(question, dict):
        given = question.get("reference_data")
        location = location if isinstance(given, dict) and location[1] in given else location[1:]
    for part in location:
        if part in (_AS_TEXT, _AS_OBJECT):
            continue
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the file"
