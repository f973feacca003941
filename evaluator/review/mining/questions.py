"""Sessions that went well into golden questions, which expect the behaviour that they share.

Sessions say the same whose user inputs are equal up to values. Arguments are learned from several sessions:
constants, references to known values, wildcards.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import count, groupby
from typing import Any, NamedTuple

from spangrade.converters.datasets.forms import RESULT, USER
from spangrade.evaluator.metrics.matching import ANY_TEXT, AnyOf, json_equal, normal_text
from spangrade.evaluator.metrics.references import ANY_ITEM, InputPattern, between, pattern_of
from spangrade.evaluator.review.session_to_golden import looks_generated
from spangrade.evaluator.session import Session, ToolInteraction
from spangrade.tracer.base.lookalike_letters import is_blank
from spangrade.tracer.redaction import Redaction
from spangrade.tracer.span import Problem

_MOST_SOURCES = 20  # ids of sessions that a question names

Calls = Sequence[ToolInteraction]
# What looks like a value: a word with a digit, a name within a sentence (words with a capital), a quotation.
_VALUE = re.compile(
    r"[\"“'‘](?<!\w.)[^\"”'’]{1,100}[\"”'’](?!\w)"
    r"|[^\s,;:!?()\[\]]{0,50}\d(?:[^\s,;!?()\[\]]{0,200}[^\s.,;:!?()\[\]])?"
    r"|(?<![.!?:] )(?<!^)(?<![\w.])[^\W\d_a-z]\w+(?:[ -][^\W\d_a-z]\w+)*"
)
_MASKED = re.compile(r"\[[a-z_]+(?::[0-9a-f]{16})?\]")
_LONGEST = 200  # characters of a value of a call that is looked for in a text
_MOST_VALUES = 500  # of a session's calls that are looked for in its texts
_MOST_LEAVES = 2_000  # of one result
_DISTINCTIVE = 6  # characters of a text that is hardly in a result by chance, if it has a digit too

Mask = Callable[[Any], Any]


class Mined(NamedTuple):
    """Golden questions, as JSON, and the sessions that none could be made of."""

    questions: list[dict[str, Any]]
    problems: list[Problem]


_VALUES = re.compile(r"\{\w+\}")  # the names of values, and of what was masked
_WORDS = re.compile(r"[^\W\d_]+")
_MOST_WORDS = 5  # of a user's first input, in the id of a question


def mine(sessions: Iterable[Session], *, dedupe: bool = True, failed_calls: bool = False) -> Mined:
    """Return golden questions that expect the sessions' behaviour, not reviewed yet.

    Sessions with equal user inputs make one question, with `dedupe` also those that differ in values alone.
    The different sets of tools that they called are alternatives. `metadata.learned` lists what was learned
    of how many sessions. Failed calls are expected only with `failed_calls`. Personal data and secrets are
    masked: a masked value of the user's becomes a name in braces, a masked argument a wildcard, and a masked
    state variable or reply is left out.
    """
    problems: list[Problem] = []
    usable = []
    for session in sessions:
        if problem := _why_unusable(session):
            problems.append(Problem(f"session {session.session_id}", problem))
        else:
            usable.append(session)
    mask = Redaction("mask").value
    questions: list[dict[str, Any]] = []
    taken: set[str] = set()
    for group in groups_of(usable, mask, dedupe=dedupe):
        own = group.sessions[0].question_id
        question_id = own if own and own not in taken else _new_id(group, taken)
        taken.add(question_id)
        questions.append({"id": question_id, **_question(group, mask, failed_calls)})
    return Mined(questions, problems)


def _new_id(group: SessionGroup, taken: Container[str]) -> str:
    """Return an id that nobody has yet: the first words of the user, without their values, and a number."""
    first = _VALUES.sub(" ", group.user_inputs[0]) if group.user_inputs else ""
    words = "-".join(_WORDS.findall(first.lower())[:_MOST_WORDS]) or "question"
    return next(name for number in count(1) if (name := f"{words}-{number}") not in taken)


def _why_unusable(session: Session) -> str | None:
    if not session.turns or any(turn.user_input is None for turn in session.turns):
        return "the user's messages are not all recorded"
    if not session.agents:
        return "which agents took part is not recorded"
    if any(turn.failed and is_blank(turn.final_response) for turn in session.turns):
        return "a turn ended in an error without an answer"
    return None


def _question(group: SessionGroup, mask: Mask, failed_calls: bool) -> dict[str, Any]:
    sessions = group.sessions
    rules: list[LearnedValue] = []
    reference: dict[str, Any] = {}
    ways: dict[tuple[Any, ...], list[tuple[Calls, dict[str, str]]]] = defaultdict(list)
    for session, values in zip(sessions, group.values, strict=True):
        ran = [call for call in session.tool_interactions if call.ran]
        calls = [call for call in ran if failed_calls or call.ok is not False]
        kinds = Counter((call.tool_name, call.ok is False) for call in calls)
        ways[tuple(sorted(kinds.items()))].append((calls, values))
    lists = []
    # An alternative is not empty: sessions without calls come first.
    by_number = sorted(ways.items(), key=lambda way: (bool(way[0]), -len(way[1])))
    for number, (_, way) in enumerate(by_number):
        where = "reference_tool_interactions"
        if number:
            where = f"reference_tool_alternatives[{number - 1}]"
        expected, learned = way_of(way, where, mask)
        rule = "these tools" if way[0][0] or len(ways) == 1 else _disagree(len(way))
        rules += (LearnedValue(where, rule, len(way)), *learned, *_optional(way[0][0], ways, where))
        lists.append(expected)
    if any(lists):
        reference["reference_tool_interactions"] = lists[0]
    if lists[1:]:
        reference["reference_tool_alternatives"] = lists[1:]
    _add_agreed(reference, sessions, mask, rules)
    first = sessions[0]
    question: dict[str, Any] = {
        "user_inputs": list(group.user_inputs),
        "agents_evaluated": [
            name for name in first.agents or () if all(name in (one.agents or ()) for one in sessions)
        ]
        or list(first.agents or ())[:1],
        "reviewed": False,
        "metadata": {
            "source_sessions": [session.session_id for session in sessions[:_MOST_SOURCES]],
            "learned": {"sessions": len(sessions), "rules": [rule._asdict() for rule in rules]},
        },
        "reference_data": reference,
    }
    if group.names:
        question["user_values"] = list(group.names)
    return question


def _disagree(silent: int) -> str:
    """Return that sessions of a question called no tool, and others did: doing nothing meets it."""
    return f"sessions disagree: {silent} call nothing"


def _optional(
    calls: Calls, ways: Mapping[tuple[Any, ...], Sequence[tuple[Calls, dict[str, str]]]], where: str
) -> Iterator[LearnedValue]:
    """Yield the calls of a list that sessions with a list contained in it left out."""
    own = Counter(call.tool_name for call in calls)
    for other in ways.values():
        fewer = Counter(call.tool_name for call in other[0][0])
        if fewer < own:
            names = ", ".join(sorted((own - fewer).elements()))
            yield LearnedValue(where, f"optional, other sessions do without: {names}", len(other))


def _add_agreed(
    reference: dict[str, Any], sessions: Sequence[Session], mask: Mask, rules: list[LearnedValue]
) -> None:
    """Add the trajectory of agents, the state variables and the reply, as far as all sessions agree."""
    number = len(sessions)
    paths = [
        [name for name, _ in groupby(step.name for step in session.trajectory if step.kind == "agent")]
        for session in sessions
    ]
    if all(path == paths[0] for path in paths):
        reference["reference_trajectory"] = paths[0]
        rules.append(LearnedValue("reference_trajectory", "always the same", number))
    states = [session.state_variables for session in sessions]
    known = [state for state in states if state is not None]
    if len(known) == number:
        agreed = {
            name: value
            for name, value in known[0].items()
            if all(name in state and json_equal(value, state[name]) for state in known)
            and json_equal(mask({name: value}), {name: value})
        }
        if agreed:
            reference["reference_state_variables"] = agreed
            rules += (
                LearnedValue(f"reference_state_variables.{name}", "always the same", number)
                for name in agreed
            )
    replies = {session.turns[-1].final_response for session in sessions}
    reply = next(iter(replies))
    if len(replies) == 1 and reply is not None and mask(reply) == reply:
        reference["reference_response"] = reply
        rules.append(LearnedValue("reference_response", "always the same", number))


class SessionGroup(NamedTuple):
    """Sessions whose user inputs are equal up to values.

    `user_inputs` has names in braces for values. `values` are those of each session, by name, in the order of
    `sessions`.
    """

    sessions: tuple[Session, ...]
    user_inputs: tuple[str, ...]
    names: tuple[str, ...]
    values: tuple[dict[str, str], ...]


def groups_of(sessions: Iterable[Session], mask: Callable[[str], str], *, dedupe: bool) -> list[SessionGroup]:
    """Return sessions in groups with equal user inputs, up to values with `dedupe`; the largest first.

    What looks like a value, or is one of a call's arguments or results, is a value where it differs between
    the sessions of a group, or where `mask` replaces it.
    """
    by_texts: dict[tuple[str, ...], list[tuple[Session, list[list[str]]]]] = defaultdict(list)
    personal: set[str] = set()
    for session in sessions:
        texts = [normal_text(turn.user_input or "") for turn in session.turns]
        known = _values_of(session) if dedupe else ()
        masked = [_masked_spans(text, mask) for text in texts]
        personal.update(
            text[start:end] for text, spans in zip(texts, masked, strict=True) for start, end in spans
        )
        split = [_split(text, spans, known) for text, spans in zip(texts, masked, strict=True)]
        key = [parts[::2] for parts in split] if dedupe else texts
        by_texts[tuple(map(str, key))].append((session, split))
    largest_first = sorted(by_texts.values(), key=len, reverse=True)
    made = [_group(members, personal) for members in largest_first]
    return _joined(made) if dedupe else made


def _group(members: Sequence[tuple[Session, list[list[str]]]], personal: Collection[str]) -> SessionGroup:
    """Return a group of sessions whose texts are split in the same literal pieces.

    What differs between them, and what is `personal`, is a value; the rest is literal.
    """
    sessions = tuple(session for session, _ in members)
    names: dict[tuple[str, ...], str] = {}
    literal_text = " ".join(part for parts in members[0][1] for part in parts[::2])
    inputs = []
    for turn in range(len(members[0][1])):
        pieces = list(members[0][1][turn])
        for place in range(1, len(pieces), 2):
            column = tuple(split[turn][place] for _, split in members)
            if len(set(column)) > 1 or column[0] in personal:
                pieces[place] = "{" + names.setdefault(column, _name(len(names), literal_text)) + "}"
        inputs.append("".join(pieces))
    rows = [{name: column[index] for column, name in names.items()} for index in range(len(members))]
    return SessionGroup(sessions, tuple(inputs), tuple(names.values()), tuple(rows))


def _name(number: int, text: str) -> str:
    """Return a name that the text does not have in braces already."""
    name = f"value{number + 1}"
    return name if "{" + name + "}" not in text else f"{name}_of_user"


def _joined(groups: Sequence[SessionGroup]) -> list[SessionGroup]:
    """Return groups without those whose texts an earlier, larger group accepts: their sessions join it."""
    kept: list[SessionGroup] = []
    by_texts: dict[tuple[str, ...], int] = {}
    patterns: dict[int, list[tuple[InputPattern, int]]] = defaultdict(list)  # by number of turns
    for group in groups:
        turns = len(group.user_inputs)
        rows: list[dict[str, str] | None] = [{} for _ in group.sessions]
        index = None if group.names else by_texts.get(group.user_inputs)
        for pattern, place in patterns[turns] if index is None else ():
            rows = [pattern.values([turn.user_input or "" for turn in one.turns]) for one in group.sessions]
            if None not in rows:
                index = place
                break
        if index is None:
            if group.names:
                patterns[turns].append((pattern_of(group.user_inputs, group.names), len(kept)))
            else:
                by_texts[group.user_inputs] = len(kept)
            kept.append(group)
        else:
            values = (*kept[index].values, *(row for row in rows if row is not None))
            kept[index] = kept[index]._replace(
                sessions=(*kept[index].sessions, *group.sessions), values=values
            )
    return sorted(kept, key=lambda one: -len(one.sessions))


def _masked_spans(text: str, mask: Callable[[str], str]) -> list[tuple[int, int]]:
    """Return where `mask` replaces parts of a text; the whole text if that cannot be told."""
    masked = mask(text)
    if masked == text:
        return []
    literals = _MASKED.split(masked)
    values = between(literals, text)
    if values is None:
        return [(0, len(text))]
    spans = []
    start = 0
    for literal, value in zip(literals, values, strict=False):
        start += len(literal)
        spans.append((start, start + len(value)))
        start += len(value)
    return spans


def _split(text: str, personal: Sequence[tuple[int, int]], known: Sequence[str]) -> list[str]:
    """Return a text in pieces, literal ones and values in turn, the first and the last literal."""
    looks = [span for found in _VALUE.finditer(text) if not _overlaps(span := found.span(), personal)]
    words = [(start, end) for start, end in looks if any(map(str.isdigit, text[start:end]))]
    spans = list(personal)
    for value in known:
        found = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", text)]
        # A part of a number or a date is not what a call has: the whole one is.
        spans += (one for one in found if one in words or not _overlaps(one, (*words, *personal)))
    spans += (one for one in looks if one in words or not _overlaps(one, spans))
    pieces: list[str] = []
    last = 0
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start < last:
            continue
        pieces += (text[last:start], text[start:end])
        last = end
    return [*pieces, text[last:]]


def _overlaps(span: tuple[int, int], others: Iterable[tuple[int, int]]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in others)


def _values_of(session: Session) -> list[str]:
    """Return the texts and numbers in a session's calls, as texts, the longest first."""
    found: dict[str, None] = {}
    for call in session.tool_interactions:
        for value in (*leaves(call.input_arguments), *leaves(call.output)):
            text = normal_text(value) if isinstance(value, str) else str(value)
            if len(text) > 1 and len(text) <= _LONGEST and len(found) < _MOST_VALUES:
                found[text] = None
    return sorted(found, key=len, reverse=True)


def leaves(value: Any) -> Iterator[str | int | float]:
    """Yield the texts and numbers in a JSON value."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


class LearnedValue(NamedTuple):
    """A value learned from a number of sessions; `where` is its place in the question."""

    where: str
    rule: str
    sessions: int


class Seen(NamedTuple):
    """An actual call of a session, with the values that may explain its arguments."""

    call: ToolInteraction
    user_values: dict[str, str]
    earlier: Sequence[ToolInteraction]


def way_of(
    ways: Sequence[tuple[Sequence[ToolInteraction], dict[str, str]]], where: str, mask: Mask
) -> tuple[list[dict[str, Any]], list[LearnedValue]]:
    """Return the expected calls that sessions agree on, and the learned values.

    `ways` are the calls of each session, the same tools as often in each, and the values of its user's texts.
    Each call is compared with the other sessions' call of this tool that came as first, second and so on.
    """
    orders = [_numbered(calls) for calls, _ in ways]
    order = max(orders, key=orders.count)
    unordered = _unordered(orders)
    expected: list[dict[str, Any]] = []
    rules: list[LearnedValue] = []
    for position, key in enumerate(order):
        seen = []
        for (calls, values), names in zip(ways, orders, strict=True):
            at = names.index(key)
            seen.append(Seen(calls[at], values, calls[:at]))
        call: dict[str, Any] = {"tool_name": key[0]}
        at_call = f"{where}[{position}]"
        arguments = [one.call.input_arguments for one in seen]
        if all(isinstance(one, dict) for one in arguments):
            masked = [mask(one) for one in arguments]
            call["input_arguments"] = _expected(arguments, masked, seen, f"{at_call}.input_arguments", rules)
        if seen[0].call.ok is False:
            call["status"] = "error"
        if key in unordered:
            call["unordered"] = True
            rules.append(LearnedValue(at_call, "in any order with the unordered calls beside it", len(ways)))
        expected.append(call)
    return expected, rules


def _numbered(calls: Sequence[ToolInteraction]) -> list[tuple[str, bool, int]]:
    """Return the tool of each call, whether it failed, and its number among the calls of this kind."""
    counts: dict[tuple[str, bool], int] = {}
    keys = []
    for call in calls:
        kind = (call.tool_name, call.ok is False)
        counts[kind] = counts.get(kind, 0) + 1
        keys.append((*kind, counts[kind]))
    return keys


def _unordered(orders: Sequence[list[tuple[str, bool, int]]]) -> set[tuple[str, bool, int]]:
    """Return the calls that came before another call in one session and after it in another."""
    distinct = {tuple(order) for order in orders}
    places = [{key: place for place, key in enumerate(order)} for order in distinct]
    keys = orders[0]
    return {
        key
        for key in keys
        for other in keys
        if key != other and len({place[key] < place[other] for place in places}) > 1
    }


def _expected(
    values: Sequence[Any], masked: Sequence[Any], seen: Sequence[Seen], where: str, rules: list[LearnedValue]
) -> Any:
    """Return the expected value in place of those of several sessions; add learned values to `rules`.

    `masked` are the same values without personal data; one that differs from its own is never expected.
    """
    if all(isinstance(one, dict) for one in (*values, *masked)):
        made: dict[str, Any] = {}
        for key in dict.fromkeys(key for value in masked for key in value):
            place = f"{where}.{key}"
            if all(key in value for value in (*values, *masked)):
                inner = ([one[key] for one in values], [one[key] for one in masked])
                made[key] = _expected(*inner, seen, place, rules)
            else:
                made[key] = None
                rules.append(LearnedValue(place, "any value or none", len(values)))
        return made
    if all(isinstance(one, list) for one in (*values, *masked)) and len({len(one) for one in values}) == 1:
        return [
            _expected([one[at] for one in values], [one[at] for one in masked], seen, f"{where}[{at}]", rules)
            for at in range(len(values[0]))
        ]
    return _expected_scalar(values, masked, seen, where, rules)


def _expected_scalar(
    values: Sequence[Any], masked: Sequence[Any], seen: Sequence[Seen], where: str, rules: list[LearnedValue]
) -> Any:
    first = values[0]
    number = len(values)

    def learned(rule: str, expected: Any) -> Any:
        rules.append(LearnedValue(where, rule, number))
        return expected

    constant = all(json_equal(first, value) for value in values)
    personal = not all(map(json_equal, values, masked))
    if name := _user_value(values, seen):
        return learned(f"the user's {name}", {USER: name})
    is_weak = number == 1 and not (personal or _is_distinctive(first))
    if constant and not personal and (number > 1 or is_weak):
        if first is None:
            return learned("null", {"$null": True})
        if first == ANY_TEXT:
            return learned("any text", ANY_TEXT)
        return learned("always the same", first)
    if place := _result_value(values, seen):
        return learned(f"from the result {place}", {RESULT: place})
    if constant and not personal and not looks_generated(first):
        return learned("always the same", first)
    if all(isinstance(value, str) for value in values):
        return learned("any text", ANY_TEXT)
    return learned("any value", None)


def _is_distinctive(value: Any) -> bool:
    return isinstance(value, str) and len(value) >= _DISTINCTIVE and any(map(str.isdigit, value))


def _user_value(values: Sequence[Any], seen: Sequence[Seen]) -> str | None:
    """Return the name of the user's value that these are in every session."""
    for name in seen[0].user_values:
        if all(
            AnyOf((one.user_values[name],), text=True).accepts(value)
            for value, one in zip(values, seen, strict=True)
        ):
            return name
    return None


def _result_value(values: Sequence[Any], seen: Sequence[Seen]) -> str | None:
    """Return the place in earlier results at which these values are in every session, the latest call's."""
    common: dict[str, None] | None = None
    for value, one in zip(values, seen, strict=True):
        if value is None or isinstance(value, bool | dict | list) or value == "":
            return None
        places = dict.fromkeys(
            f"{call.tool_name}#{path}"
            for call in reversed(one.earlier)
            if call.output_known
            for path in _paths(call.output, value)
        )
        common = places if common is None else {place: None for place in common if place in places}
        if not common:
            return None
    return min(common or (), key=lambda place: place.count(ANY_ITEM), default=None)


def _paths(result: Any, value: Any) -> Iterator[str]:
    """Yield the paths at which a result has a value, then each with `*` in place of elements of lists."""
    found = [
        path for path, leaf in _leaves(result, ()) if not isinstance(leaf, bool) and json_equal(leaf, value)
    ]
    for path in found:
        yield _pointer(path)
    for path in found:
        if any(isinstance(part, int) for part in path):
            yield _pointer([ANY_ITEM if isinstance(part, int) else part for part in path])


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    stack: list[tuple[tuple[str | int, ...], Any]] = [(path, value)]
    count = 0
    while stack and count < _MOST_LEAVES:
        path, value = stack.pop()
        if isinstance(value, dict):
            stack += (((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            stack += (((*path, index), item) for index, item in enumerate(value))
        else:
            count += 1
            yield path, value


def _pointer(path: Sequence[str | int]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
