"""Learn rules on calls from good sessions: rules that all of them keep to, and their error rates.

Sessions are halved by their ids. The rules of one half are tested on the other half, which shows how often a
good session breaks them.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from spangrade.converters.datasets.call_rules import AtMost, CallOrder, Rule, Told
from spangrade.converters.datasets.files import write_text
from spangrade.converters.datasets.golden import distinct_name
from spangrade.evaluator.metrics.call_rules import broken_by, triggers, value_text, values_in
from spangrade.evaluator.metrics.metric import Score
from spangrade.evaluator.metrics.reply_texts import folded, has_text
from spangrade.evaluator.session import Session, ToolInteraction
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.base.errors import InputError

# The sessions to learn from: they passed, or are of production and did not fail.
GOOD = "verdict = 'passed' OR (origin = 'production' AND coalesce(verdict, '') NOT IN ('failed', 'broken'))"
LEAST = 20  # sessions that a rule must concern, half of them in each half
_MOST_BROKEN = 0.05  # the estimated share of good sessions that a proposed rule fails, at most
_HOLDS = 0.97  # of the sessions of the first half
_MOST_CALLS = 200  # of a session that is learned from: pairs of calls are compared
_HIGHEST_LIMIT = 3  # of `at_most`: what is called more often is not limited
_SHORTEST_TOLD = 3  # characters of a value that is hardly in a reply by chance
_LONGEST_TOLD = 60
_NAMED = 3  # sessions that break a rule
_UNNAMED = re.compile(r"[^\w.-]+")
_PLAIN = re.compile(r"[\w-]+")  # a key that a path can have

_Pair = tuple[str, str]


class MinedRule(NamedTuple):
    """A rule with the sessions that it concerns, and the ids of the first that break it."""

    rule: Rule
    broken_by: tuple[str, ...]


class OnSessions(NamedTuple):
    """How a rule fares on sessions: the number that it concerns, and those that break it, by id."""

    support: int
    broken_by: tuple[str, ...]


def mine_rules(sessions: Iterable[Session], *, least: int = LEAST) -> list[MinedRule]:
    """Return the rules that good sessions keep to, as drafts, those first that the most sessions support.

    A rule is proposed if each half of the sessions shows it by itself: it holds in 97% of those that it
    concerns, half of `least` or more. Each half is then held against the rule that the other half showed: of
    the n sessions that it concerns, b break it, and (b + 1) / (n + 2) is the estimated share of good sessions
    that it fails (Laplace's rule of succession). Rules with a share above 5% are left out, and so is an order
    of calls that follows from two others.
    """
    halves: tuple[list[Session], list[Session]] = ([], [])
    for session in sessions:
        if session.calls_unknown is None and len(session.tool_interactions) <= _MOST_CALLS:
            halves[blake2b(session.session_id.encode(), digest_size=1).digest()[0] & 1].append(session)
    shown = [{rule.digest: rule for rule in _shown_by(half, (least + 1) // 2)} for half in halves]
    found: list[MinedRule] = []
    for rule in _without_implied([rule for digest, rule in shown[0].items() if digest in shown[1]]):
        results = [measured(rule, half) for half in halves]
        support = sum(one.support for one in results)
        broken = [session_id for one in results for session_id in one.broken_by]
        estimate = (len(broken) + 1) / (support + 2)
        if estimate <= _MOST_BROKEN:
            more = {"support": support, "violators": len(broken), "false_alarms": round(estimate, 4)}
            found.append(MinedRule(rule.model_copy(update=more), tuple(broken[:_NAMED])))
    found.sort(key=lambda one: (-(one.rule.support or 0), one.rule.name))
    return _with_distinct_names(found)


def _shown_by(sessions: Iterable[Session], least: int) -> Iterator[Rule]:
    learned = _Learned()
    for session in sessions:
        learned.add(session)
    return learned.candidates(least)


def check_rules(rules: Iterable[Rule], sessions: Sequence[Session]) -> list[MinedRule]:
    """Return rules with the number of sessions that they concern and that break them."""
    checked = []
    for rule in rules:
        support, broken = measured(rule, sessions)
        changes = {"support": support, "violators": len(broken)}
        checked.append(MinedRule(rule.model_copy(update=changes), broken[:_NAMED]))
    return checked


def measured(rule: Rule, sessions: Iterable[Session]) -> OnSessions:
    """Return how many sessions a rule concerns, and which break it; an unknown part breaks nothing."""
    support = 0
    broken: list[str] = []
    for session in sessions:
        if triggers(rule, session):
            outcome = broken_by(session, rule=rule)
            support += isinstance(outcome, Score)
            if isinstance(outcome, Score) and outcome.value:
                broken.append(session.session_id)
    return OnSessions(support, tuple(broken))


class _Learned:
    """Common facts of the sessions of one half, counted by session."""

    def __init__(self) -> None:
        self._calling: Counter[str] = Counter()  # sessions that call a tool
        self._most: Counter[str] = Counter()  # the most calls of it in one
        self._preceded: Counter[_Pair] = Counter()
        self._same: dict[_Pair, Counter[str]] = defaultdict(Counter)
        self._from_result: dict[_Pair, Counter[str]] = defaultdict(Counter)
        self._values: dict[tuple[str, str], set[str]] = defaultdict(set)  # of an argument, at most two
        self._succeeding: Counter[str] = Counter()  # sessions in which a call of it did not fail
        self._both: Counter[_Pair] = Counter()
        self._never_after: Counter[_Pair] = Counter()
        self._followed: Counter[_Pair] = Counter()
        self._telling: Counter[_Pair] = Counter()
        self._told: Counter[_Pair] = Counter()

    def add(self, session: Session) -> None:
        """Count what a session shows."""
        calls: dict[str, list[ToolInteraction]] = defaultdict(list)
        for call in session.tool_interactions:
            if not call.handoff and call.ran:
                calls[call.tool_name].append(call)
        done = {tool: [one for one in made if one.ok is not False] for tool, made in calls.items()}
        done = {tool: made for tool, made in done.items() if made}
        self._calling.update(calls.keys())
        self._succeeding.update(done.keys())
        for tool, made in calls.items():
            self._most[tool] = max(self._most[tool], len(done.get(tool, ())))
            for call in made:
                for name, value in _arguments(call).items():
                    if len(values := self._values[tool, name]) < 2:
                        values.add(canonical(value))
        for first, earlier in done.items():
            for then, later in calls.items():
                if first != then:
                    self._add_pair((first, then), earlier, later, done.get(then, ()))
        self._add_told(session, done)

    def _add_pair(
        self,
        pair: _Pair,
        firsts: Sequence[ToolInteraction],
        thens: Sequence[ToolInteraction],
        succeeded: Sequence[ToolInteraction],
    ) -> None:
        self._both[pair] += 1
        ended = min(call.end_ns for call in firsts)
        if all(call.start_ns < ended for call in thens):
            self._never_after[pair] += 1
        if succeeded and all(any(c.start_ns >= one.end_ns for c in succeeded) for one in firsts):
            self._followed[pair] += 1
        if any(call.start_ns < ended for call in thens):
            return
        self._preceded[pair] += 1
        before = [(call, [one for one in firsts if one.end_ns <= call.start_ns]) for call in thens]
        self._same[pair].update(_in_all(_same_names(call, ones) for call, ones in before))
        self._from_result[pair].update(_in_all(_names_from_results(call, ones) for call, ones in before))

    def _add_told(self, session: Session, done: dict[str, list[ToolInteraction]]) -> None:
        replies = {turn.turn: folded(turn.final_response or "") for turn in session.turns}
        for tool, calls in done.items():
            told = [
                {
                    path: any(has_text(reply, t) for n, reply in replies.items() if n >= (call.turn or 0))
                    for path, t in texts
                }
                for call in calls
                if (texts := list(_texts_of(call.output)))
            ]
            for path in set().union(*told):
                self._telling[tool, path] += 1
                self._told[tool, path] += all(one.get(path, True) for one in told)

    def candidates(self, least: int) -> Iterator[Rule]:
        """Yield the rules that hold in 97% of the sessions that they concern, of `least` sessions or more."""

        def holds(number: int, of: int) -> bool:
            return of >= least and number >= _HOLDS * of

        for (first, then), number in sorted(self._preceded.items()):
            of = self._calling[then]
            if holds(number, of):
                pair = first, then
                same = self._names(self._same[pair], then, of)
                taken = () if same else self._names(self._from_result[pair], then, of)
                name = f"{first}-before-{then}"
                yield _rule(name, before=[CallOrder(first, then, same, taken)])
        for tool, number in sorted(self._most.items()):
            if self._calling[tool] >= least and 0 < number <= _HIGHEST_LIMIT:
                yield _rule(
                    f"{tool}-at-most-{number}", at_most=(AtMost(tool, number),), failed_calls="ignore"
                )
        for (first, then), of in sorted(self._both.items()):
            # Where it always comes first, and once, it is never after.
            is_order = holds(self._preceded[then, first], self._calling[first]) and self._most[then] == 1
            if holds(self._never_after[first, then], of) and not is_order:
                yield _rule(f"{then}-never-after-{first}", never_after=[CallOrder(first, then)])
            if holds(self._followed[first, then], self._succeeding[first]):
                yield _rule(f"{first}-followed-by-{then}", followed_by=[CallOrder(first, then)])
        for (tool, path), of in sorted(self._telling.items()):
            if holds(self._told[tool, path], of):
                yield _rule(f"{tool}-told-{path}", reply_has=[Told(tool, path)])

    def _names(self, counts: Counter[str], tool: str, of: int) -> tuple[str, ...]:
        """Return the arguments of a tool that nearly all sessions have so, without those that never vary."""
        return tuple(
            name
            for name, number in sorted(counts.items())
            if number >= _HOLDS * of and len(self._values[tool, name]) > 1
        )


def _rule(name: str, **asked: Any) -> Rule:
    return Rule(name=_UNNAMED.sub("-", name)[:70], draft=True, **asked)


def _arguments(call: ToolInteraction) -> dict[str, Any]:
    return call.input_arguments if isinstance(call.input_arguments, dict) else {}


def _in_all(names: Iterable[set[str]]) -> set[str]:
    return set.intersection(*names)


def _same_names(call: ToolInteraction, earlier: Sequence[ToolInteraction]) -> set[str]:
    """Return the arguments of a call that one of the earlier calls has, too, with an equal value."""
    return {
        name
        for name, value in _arguments(call).items()
        if any(name in _arguments(one) and _arguments(one)[name] == value for one in earlier)
    }


def _names_from_results(call: ToolInteraction, earlier: Sequence[ToolInteraction]) -> set[str]:
    """Return the arguments of a call whose values the result of one of the earlier calls has."""
    values = [values_in(one.output) for one in earlier if one.output_known]
    return {
        name
        for name, value in _arguments(call).items()
        if not (value is None or isinstance(value, bool | dict | list))
        and any(value_text(value) in one for one in values)
    }


def _texts_of(result: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each text and number in the objects of a result, with its text."""
    if isinstance(result, dict):
        for key, value in result.items():
            if _PLAIN.fullmatch(key):
                yield from _texts_of(value, f"{path}.{key}" if path else key)
    elif path and result is not None and not isinstance(result, bool | list):
        text = folded(value_text(result))
        if _SHORTEST_TOLD <= len(text) <= _LONGEST_TOLD:
            yield path, text


def _without_implied(rules: Sequence[Rule]) -> Iterator[Rule]:
    """Yield rules without an order of two tools that follows from the orders of both with a third."""
    before = {(one.first, one.then): one for rule in rules for one in rule.before or ()}
    after: dict[str, set[str]] = defaultdict(set)
    for first, then in before:
        after[first].add(then)
    for rule in rules:
        for one in rule.before or ():
            between = (name for name in after[one.first] if one.then in after[name])
            if not (one.same or one.from_result) and any(one.first not in after[name] for name in between):
                break
        else:
            yield rule


def _with_distinct_names(found: Iterable[MinedRule]) -> list[MinedRule]:
    made: dict[str, MinedRule] = {}
    for one in found:
        name = distinct_name(one.rule.name, made)
        made[name] = one._replace(rule=one.rule.model_copy(update={"name": name}))
    return list(made.values())


def add_rules(file: Path, known: Iterable[Rule], rules: Iterable[Rule]) -> list[Rule]:
    """Add rules to a file of settings, and return those that it did not have: no known one asks for the same.

    A new file is made if there is none. Raises InputError for a file of another form than TOML.
    """
    known = list(known)
    asked, names = {rule.digest for rule in known}, {rule.name for rule in known}
    new = [rule for rule in rules if rule.digest not in asked]
    if not new:
        return []
    if file.suffix != ".toml":
        raise InputError(f"{file}: rules are written to a file of TOML")
    table = "tool.spangrade.rules" if file.name == "pyproject.toml" else "rules"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    for place, rule in enumerate(new):
        name = distinct_name(rule.name, names)
        names.add(name)
        new[place] = rule.model_copy(update={"name": name})
    tables = [f"[[{table}]]\n{rule_toml(rule)}" for rule in new]
    write_text(file, "\n".join([*([f"{text.rstrip()}\n"] if text.strip() else []), *tables]))
    return new


def rule_toml(rule: Rule) -> str:
    """Return the lines of a rule in TOML, without those that have their defaults."""
    given = rule.model_dump(mode="json", exclude_defaults=True)
    return "".join(f"{name} = {_value(value)}\n" for name, value in given.items())


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(name)} = {_value(one)}' for name, one in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else json.dumps(name, ensure_ascii=False)
