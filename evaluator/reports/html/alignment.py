"""What was expected and what happened, side by side, with the differences word by word.

Calls are paired as the metrics pair them: what is missing here is missing there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

from spangrade.converters.datasets.forms import accepts_absent, described, word_of
from spangrade.converters.datasets.golden import (
    ExpectedReply,
    GoldenQuestion,
    ReferenceToolInteraction,
    text_of,
)
from spangrade.evaluator.metrics.matching import (
    ANY_TEXT,
    MISSING,
    STATE,
    SUBSET,
    AnyOf,
    Rules,
    arranged,
    expects_null,
    first_difference,
    rules_of,
)
from spangrade.evaluator.metrics.pairing import Context, best_met, compared_calls, nearest_calls, pair_calls
from spangrade.evaluator.metrics.patterns import matches_pattern
from spangrade.evaluator.metrics.references import pattern_of, resolved, user_values
from spangrade.evaluator.metrics.reply_texts import contains, same_text
from spangrade.evaluator.metrics.state import path_in, value_at
from spangrade.evaluator.metrics.trajectory import major_reference, major_steps
from spangrade.evaluator.reports.html.texts import LONGEST, as_text
from spangrade.evaluator.session import Session, ToolInteraction

State = Literal["same", "differs", "missing", "not expected", "in another order"]

MOST = 2_000  # steps, or calls, that are aligned; SequenceMatcher is quadratic at worst
_MOST_WORDS = 2_000  # of a text that is compared word by word
_WORD = re.compile(r"\w+|\s+|[^\w\s]")


class Words(NamedTuple):
    """Successive words of one side of a comparison; `changed` if the other side has none of them there."""

    text: str
    changed: bool


class TextPair(NamedTuple):
    """Two texts as their words; None is a side without a value."""

    expected: tuple[Words, ...] | None
    actual: tuple[Words, ...] | None


class StepPair(NamedTuple):
    """A step of the expected or the actual trajectory, or of both."""

    state: State
    expected: str | None
    actual: str | None
    span_id: str | None = None


class Value(NamedTuple):
    """An argument, a state variable or the like; `state` is "same" where any value was accepted."""

    state: State
    name: str
    difference: TextPair


class CallPair(NamedTuple):
    """An expected call beside the call that was made for it; `values` are its arguments and its result."""

    state: State
    expected: str | None
    actual: str | None
    span_id: str | None
    values: tuple[Value, ...]
    note: str = ""


class Alignment(NamedTuple):
    """Expectation and session side by side; None where the question does not have the reference.

    `cut` says that only the first steps or calls were aligned.
    """

    trajectory: tuple[StepPair, ...] | None
    calls: tuple[CallPair, ...] | None
    state: tuple[Value, ...] | None
    reply: Value | None
    user_inputs: tuple[Value, ...]
    agents: tuple[StepPair, ...]
    cut: bool = False


def alignment(session: Session, question: GoldenQuestion) -> Alignment:
    """Return a golden question and a session that answers it, side by side."""
    reference = question.reference_data
    cut = max(len(session.trajectory), len(session.tool_interactions)) > MOST
    return Alignment(
        None if reference.reference_trajectory is None else _trajectory(session, question),
        None
        if question.reference("reference_tool_interactions") is None
        else tuple(_calls(session, question)),
        None
        if reference.reference_state_variables is None
        else _state(reference.reference_state_variables, session.state_variables or {}),
        _reply(session, reference.reference_response),
        tuple(_user_inputs(session, question)),
        tuple(
            StepPair("same", name, name)
            if name in (session.agents or ())
            else StepPair("missing", name, None)
            for name in dict.fromkeys(question.agents_evaluated)
        ),
        cut,
    )


def aligned(expected: Sequence[str], actual: Sequence[str]) -> Iterator[tuple[int | None, int | None]]:
    """Yield the indexes of names that stand side by side; None where one side has nothing."""
    matcher = SequenceMatcher(None, expected, actual, autojunk=False)
    for operation, left, left_end, right, right_end in matcher.get_opcodes():
        if operation == "equal":
            yield from zip(range(left, left_end), range(right, right_end), strict=True)
        else:
            yield from ((index, None) for index in range(left, left_end))
            yield from ((None, index) for index in range(right, right_end))


def _trajectory(session: Session, question: GoldenQuestion) -> tuple[StepPair, ...]:
    steps = major_steps(session, question)[:MOST]
    expected = arranged(major_reference(session, question), [step.name for step in steps])[:MOST]
    rows = []
    for left, right in aligned(expected, [step.name for step in steps]):
        actual = None if right is None else steps[right]
        state: State = "missing" if actual is None else "not expected" if left is None else "same"
        rows.append(
            StepPair(
                state,
                None if left is None else expected[left],
                None if actual is None else actual.name,
                None if actual is None else actual.span_id,
            )
        )
    return tuple(rows)


def _calls(session: Session, question: GoldenQuestion) -> Iterator[CallPair]:
    """Yield the expected calls in their order, each beside its own; between them those not expected."""
    expected = best_met(session, question)[:MOST]
    actual = compared_calls(session, question)[:MOST]
    values = user_values(session, question)
    chosen = list(pair_calls(expected, actual, values))
    met = [place is not None for place in chosen]
    nearest = nearest_calls(expected, actual, chosen, Context("subset", values, actual))
    chosen = [near if place is None else place for place, near in zip(chosen, nearest, strict=True)]
    free = [place for place in range(len(actual)) if place not in set(chosen)]
    highest = -1
    for wanted, place, is_met in zip(expected, chosen, met, strict=True):
        if place is None:
            yield CallPair("missing", _title(wanted), None, None, _values(wanted.input_arguments or {}, {}))
            continue
        while free and free[0] < place:
            yield _not_expected(actual[free.pop(0)])
        call = actual[place]
        state: State = "differs" if not is_met else "same" if place > highest else "in another order"
        highest = max(highest, place)
        arguments = resolved(wanted.input_arguments, values, actual[:place])
        compared = _compared(wanted, arguments, call)
        yield CallPair(state, _title(wanted), call.tool_name, call.span_id, compared, _note(call))
    yield from (_not_expected(actual[place]) for place in free)


def _title(wanted: ReferenceToolInteraction) -> str:
    return f"{wanted.tool_name} (expected to fail)" if wanted.status == "error" else wanted.tool_name


def _note(call: ToolInteraction) -> str:
    return "failed" if call.ok is False else ""


def _not_expected(call: ToolInteraction) -> CallPair:
    values = tuple(
        Value("same", value.name, value.difference) for value in _values({}, _arguments(call), free=True)
    )
    return CallPair("not expected", None, call.tool_name, call.span_id, values, _note(call))


def _compared(
    wanted: ReferenceToolInteraction, arguments: dict[str, Any] | None, call: ToolInteraction
) -> tuple[Value, ...]:
    if arguments is None:
        values: tuple[Value, ...] = _values({}, _arguments(call), free=True)
    elif wanted.match == "ignore":
        values = _values({}, _arguments(call), free=True)
    elif not call.arguments_known:
        values = (Value("differs", "arguments", TextPair(_plain(wanted.input_arguments), None)),)
    else:
        keys = wanted.match or "subset"
        values = _values(arguments, _arguments(call), rules_of(keys), free=keys == "subset")
    if wanted.output is not None:
        same = call.output_known and first_difference(wanted.output, call.output) is None
        actual = call.output if call.output_known else None
        values += (Value("same" if same else "differs", "result", difference(wanted.output, actual)),)
    return values


def _arguments(call: ToolInteraction) -> Mapping[str, Any]:
    if not call.arguments_known:
        return {}
    return call.input_arguments if isinstance(call.input_arguments, dict) else {"": call.input_arguments}


def _values(
    expected: Mapping[str, Any], actual: Mapping[str, Any], rules: Rules = SUBSET, *, free: bool = False
) -> tuple[Value, ...]:
    """Return values by name side by side; with `free`, those that are not expected are accepted."""
    rows = []
    for name in dict.fromkeys((*expected, *actual)):
        if name not in actual:
            is_free = expected[name] is None and rules.wildcards and rules.keys != "exact"
            if is_free or rules.keys == "superset" or accepts_absent(expected[name]):
                continue
            rows.append(Value("missing", name, TextPair(_plain(expected[name]), None)))
        elif name not in expected:
            if free or expected:
                state: State = "same" if free else "not expected"
                rows.append(Value(state, name, TextPair(None, _plain(actual[name]))))
        elif first_difference({name: expected[name]}, {name: actual[name]}, rules) is None:
            both = TextPair(_plain(_wildcard(expected[name], rules)), _plain(actual[name]))
            rows.append(Value("same", name, both))
        else:
            rows.append(Value("differs", name, difference(_wildcard(expected[name], rules), actual[name])))
    return tuple(rows)


def _state(expected: Mapping[str, Any], state: Mapping[str, Any]) -> tuple[Value, ...]:
    """Return state variables side by side, with the values at the paths that the reference names."""
    at_paths = {name: value_at(state, path_in(state, name)) for name in expected if name not in state}
    found = {name: value for name, value in at_paths.items() if value is not MISSING}
    return _values(expected, {**state, **found}, STATE)


def _wildcard(expected: Any, rules: Rules) -> Any:
    """Return an expected value as it is shown: wildcards and `$` words in words."""
    if isinstance(expected, AnyOf):
        return expected.values[0] if len(expected.values) == 1 else list(expected.values)
    if isinstance(expected, Mapping) and word_of(expected) is not None:
        return None if expects_null(expected) else described(expected)
    if not rules.wildcards:
        return expected
    return "any text" if expected == ANY_TEXT else "any value" if expected is None else expected


def _reply(session: Session, reply: str | ExpectedReply | None) -> Value | None:
    if reply is None:
        return None
    expected = text_of(reply)
    actual = session.turns[-1].final_response if session.turns else None
    if actual is None:
        return Value("missing", "reply", TextPair(_plain(expected), None))
    match = reply.match if isinstance(reply, ExpectedReply) else None
    if match == "contains":
        same = contains(actual, expected)
    elif match == "pattern":
        same = matches_pattern(expected, actual) is True
    else:
        same = same_text(actual, expected)
    if same and match in ("contains", "pattern"):
        return Value("same", "reply", TextPair(_plain(expected), _plain(actual)))
    return Value("same" if same else "differs", "reply", difference(expected, actual))


def _user_inputs(session: Session, question: GoldenQuestion) -> Iterator[Value]:
    given = [turn.user_input for turn in session.turns]
    patterns = [pattern_of((text,), question.user_values) for text in question.user_inputs]
    if question.scenario is not None:
        given = given[:1]  # the others are simulated
    for index in range(max(len(given), len(question.user_inputs))):
        name = f"turn {index + 1}"
        if index >= len(given):
            yield Value("missing", name, TextPair(_plain(question.user_inputs[index]), None))
        elif index >= len(question.user_inputs):
            yield Value("not expected", name, TextPair(None, _plain(given[index])))
        else:
            expected, actual = question.user_inputs[index], given[index]
            same = actual is not None and patterns[index].values((actual,)) is not None
            yield Value("same" if same else "differs", name, difference(expected, actual))


def difference(expected: Any, actual: Any) -> TextPair:
    """Return two values as texts with their differences word by word.

    Long texts are compared as a whole, and cut.
    """
    left, right = as_text(expected), as_text(actual)
    left_words, right_words = _WORD.findall(left), _WORD.findall(right)
    if max(len(left_words), len(right_words)) > _MOST_WORDS:
        return TextPair((Words(_cut(left), left != right),), (Words(_cut(right), left != right),))
    matcher = SequenceMatcher(None, left_words, right_words, autojunk=False)
    sides: tuple[list[Words], list[Words]] = ([], [])
    for operation, start, end, other_start, other_end in matcher.get_opcodes():
        parts = (left_words[start:end], right_words[other_start:other_end])
        for side, words in zip(sides, parts, strict=True):
            changed = operation != "equal"
            if side and side[-1].changed is changed:
                side[-1] = Words(side[-1].text + "".join(words), changed)
            elif words:
                side.append(Words("".join(words), changed))
    return TextPair(tuple(sides[0]), tuple(sides[1]))


def _plain(value: Any) -> tuple[Words, ...]:
    return (Words(_cut(as_text(value)), False),)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def differing(values: Iterable[Value]) -> int:
    """Return how many values are not as expected."""
    return sum(value.state != "same" for value in values)
