"""The filters of sessions: from the parameters of a URL, or one line, to conditions in SQL.

The line is as `verdict:failed cost>0.05 agent:shop "where is it"`. Some of them are in the header of every
page, and in its address: which sessions the pages are about.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.reports.html.queries import page_query
from spangrade.evaluator.results.origin import OriginFilter, listed_origin
from spangrade.evaluator.results.views import with_views
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.quantities import parse_time
from spangrade.tracer.store import Store

NOT_GRADED = "not graded"
VERDICTS = (*map(str, Verdict), NOT_GRADED)
ERRORS = ("with", "without")
ANY = "any"  # tool, of those that failed
LABELS = ("pass", "fail", "none")
# What is measured of a session, in SQL, and the comparisons with a number: `min_cost`, `over_cost` and so on.
QUANTITIES = {
    "cost": "cost_usd",
    "latency": "total_s",
    "tokens": "(input_tokens + output_tokens)",
    "turns": "turns",
}
BOUNDS = {"min": ">=", "max": "<=", "over": ">", "under": "<"}

# A list of names is JSON text. Reading it as a list takes 60 ms per million sessions, and is needed only for
# a name that looks like what is between two names.
_CONTAINS = (
    "(contains({0}s, '[' || ${0}_json) OR contains({0}s, ',' || ${0}_json)) "
    "AND (NOT contains(${0}, ',') OR list_contains({0}s::JSON::VARCHAR[], ${0}))"
)
_LABELS = "run_id IS NULL AND source = 'person' AND metric = 'label' AND turn IS NULL AND evidence = '[]'"
_SCORE = re.compile(r"(.+?)(>=|<=|>|<)(-?\d+(?:\.\d+)?)", re.DOTALL)
# The condition of each filter over `derived.sessions`.
_CONDITIONS = {
    "run": "session_id IN (SELECT session_id FROM {run_cells} WHERE run_id = $run)",
    "verdict": "session_id IN (SELECT session_id FROM {grades} WHERE shown AND verdict = $verdict)",
    "reason": (
        "session_id IN (SELECT session_id FROM {run_cells} WHERE run_id = $run AND contains(reason, $reason))"
    ),
    "agent": _CONTAINS.format("agent"),
    "tool": _CONTAINS.format("tool"),
    "model": _CONTAINS.format("model"),
    "prompt": _CONTAINS.format("prompt"),
    "service": "service_name = $service",
    "version": "agent_version = $version",
    "since": "start_ns >= $since",
    "until": "start_ns < $until",
    "user": "user_id = $user",
    "environment": "environment = $environment",
    "origin": "($origin = 'any' OR origin = $origin)",
    "question": "session_id IN (SELECT session_id FROM {run_cells} WHERE question_id = $question)",
    **{
        f"{bound}_{name}": f"{column} {sign} ${bound}_{name}"
        for name, column in QUANTITIES.items()
        for bound, sign in BOUNDS.items()
    },
    "errors": "(errors > 0) = $errors",
    "error": (
        "session_id IN (SELECT session_id FROM derived.errors "
        'WHERE contains(lower(message), lower($error)) OR contains(lower("where"), lower($error)))'
    ),
    "failed_tool": (
        "session_id IN (SELECT session_id FROM derived.tool_interactions "  # noqa: S608 (ours)
        f"WHERE ok = false AND ($failed_tool = '{ANY}' OR tool_name = $failed_tool))"
    ),
    "rule": (
        "session_id IN (SELECT session_id FROM scores SEMI JOIN (FROM {grades} WHERE shown) AS shown "
        "USING (run_id, session_id) WHERE passed = false AND metric IN ($rule, 'rule:' || $rule))"
    ),
    "label": f"session_id IN (SELECT session_id FROM scores WHERE {_LABELS} AND label = $label)",  # noqa: S608 (ours)
    "score": (
        "session_id IN (SELECT session_id FROM scores WHERE run_id IS NULL AND session_id IS NOT NULL "
        "AND metric = $score GROUP BY session_id HAVING avg(value) $sign $score_bound)"
    ),
    "similar": f"session_id IN ({page_query('similar_sessions')})",
    "text": f"session_id IN ({page_query('sessions_with_text')})",
}
_VERDICT_IN_RUN = (
    "session_id IN (SELECT session_id FROM {run_cells} WHERE run_id = $run AND verdict = $verdict)"
)
_WITHOUT_VERDICT = "session_id NOT IN (SELECT session_id FROM {grades})"
_NAMES = ("agent", "tool", "model", "prompt")
_TIMES = ("since", "until")
_NUMBERS = frozenset(f"{bound}_{name}" for name in QUANTITIES for bound in BOUNDS)
NAMES = tuple(_CONDITIONS)
# `failed-tool:` in the line is `failed_tool=` in an address; words without a name are the text to search for.
NAMED = tuple(
    name.replace("_", "-") for name in NAMES if name != "text" and name.partition("_")[0] not in BOUNDS
)
_SIGNS = {sign: bound for bound, sign in BOUNDS.items()}
_WORD = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*"?)+')
_NAMED = re.compile(rf"({'|'.join(map(re.escape, NAMED))}):(.+)", re.DOTALL)
_BOUND = re.compile(rf"({'|'.join(QUANTITIES)})(>=|<=|>|<)(.+)")
_SCORE_WORD = re.compile(r"[A-Za-z][\w.@-]*(?:>=|<=|>|<)-?\d+(?:\.\d+)?")  # of people or programs
_PLAIN = re.compile(r"[^\s\"\\]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"?')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
# As parameters of an address, with what the header calls them.
SCOPE = {
    "origin": "Origin",
    "agent": "Agent",
    "service": "Service",
    "version": "Version",
    "since": "Since",
    "until": "Until",
}


class SessionFilter(NamedTuple):
    """What the sessions of a list have in common: conditions over `derived.sessions`.

    Attributes:
        given: the filters as texts, by name.
        own: the condition on columns of the sessions' own.
        lookups: the conditions that look into other tables.
        candidate_lookups: the same for rows of `candidates` alone; "" where that is not quicker.
        parameters: the values of the conditions.
    """

    given: Mapping[str, str]
    own: str
    lookups: str
    candidate_lookups: str
    parameters: Mapping[str, Any]

    @property
    def condition(self) -> str:
        """The whole condition."""
        return f"({self.own}) AND ({self.lookups})"


def session_filter(texts: Mapping[str, str], only: Collection[str] | None = None) -> SessionFilter:
    """Return the filter in the parameters of a URL; an empty text is left out, and so are other names.

    With `only` the sessions are among those of these ids. Raises InputError for a value that a filter cannot
    have.
    """
    given = {name: text for name in _CONDITIONS if (text := texts.get(name, "")).strip()}
    if "reason" in given and "run" not in given:
        raise InputError("reason: expected a run, too")
    parameters: dict[str, Any] = {name: _value(name, text) for name, text in given.items()}
    conditions = {name: _CONDITIONS[name] for name in given}
    if given.get("verdict") == NOT_GRADED:
        conditions["verdict"] = _WITHOUT_VERDICT
        del parameters["verdict"]
    elif "verdict" in given and "run" in given:
        conditions["verdict"] = _VERDICT_IN_RUN
    if given.get("label") == "none":
        conditions["label"] = f"session_id NOT IN (SELECT session_id FROM scores WHERE {_LABELS})"  # noqa: S608 (ours)
        del parameters["label"]
    if "score" in given:
        parameters["score"], sign, parameters["score_bound"] = parameters["score"]
        conditions["score"] = conditions["score"].replace("$sign", sign)
    for name in _NAMES:
        if name in given:
            parameters[f"{name}_json"] = canonical(given[name])
    if "text" in given:
        parameters["json"] = canonical(given["text"])[1:-1]
        parameters["id"] = None if re.search(r"\s", given["text"]) else given["text"]
    if only is not None:
        conditions["only"] = "session_id IN (SELECT unnest($only::VARCHAR[]))"
        parameters["only"] = list(only)
    own = {name: text for name, text in conditions.items() if "SELECT" not in text}
    lookups = {name: with_views(text) for name, text in conditions.items() if name not in own}
    # All texts are searched either way, errors are few, and sessions that were not graded may be.
    quicker = not lookups.keys() <= {"error"} and "text" not in lookups and given.get("verdict") != NOT_GRADED
    return SessionFilter(given, _all(own), _all(lookups), _all(lookups) if quicker else "", parameters)


def _all(conditions: Mapping[str, str]) -> str:
    return " AND ".join(conditions.values()) or "true"


def _value(name: str, text: str) -> Any:
    if name in _TIMES:
        return parse_time(text)
    if name in _NUMBERS:
        return _number(name, text)
    if name == "errors":
        _expect(name, text, ERRORS)
        return text == "with"
    if name == "verdict":
        _expect(name, text, VERDICTS)
    if name == "origin":
        _expect(name, text, tuple(OriginFilter))
    if name == "label":
        _expect(name, text, LABELS)
    if name == "score":
        if (found := _SCORE.fullmatch(text)) is None:
            raise InputError(f"score: {text[:80]!r}; expected a name, a sign and a number, such as thumbs<1")
        return found[1], found[2], float(found[3])
    if name in _NAMES:
        return unicodedata.normalize("NFC", text)  # as canonical JSON has it
    return text


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{name}: {text!r} is not a number")
    return number


def _expect(name: str, text: str, choices: tuple[str, ...]) -> None:
    if text not in choices:
        raise InputError(f"{name}: {text!r}; expected one of {', '.join(choices)}")


def parse_line(line: str) -> dict[str, str]:
    """Return the filters of a line by name, as an address has them; what is not a filter is the text.

    Raises InputError where a filter is given twice.
    """
    filters: dict[str, str] = {}
    words = []
    for word in _WORD.findall(line):
        if bound := _BOUND.fullmatch(word):
            name, value = f"{_SIGNS[bound[2]]}_{bound[1]}", bound[3]
        elif named := _NAMED.fullmatch(word):
            name, value = named[1].replace("-", "_"), _unquoted(named[2])
        elif _SCORE_WORD.fullmatch(word):
            name, value = "score", word
        else:
            words.append(_unquoted(word))
            continue
        if name in filters:
            raise InputError(f"{word}: the line has this filter twice")
        filters[name] = value
    if words:
        filters["text"] = " ".join(words)
    return filters


def line_of(filters: Mapping[str, str]) -> str:
    """Return the line that `parse_line` reads as these filters."""
    return " ".join(word_of(name, value) for name, value in filters.items())


def word_of(name: str, value: str) -> str:
    """Return one filter as a word of the line."""
    bound, _, quantity = name.partition("_")
    if bound in BOUNDS:
        return f"{quantity}{BOUNDS[bound]}{value}"
    if name == "text":
        # Words stay as they were typed unless they would be read as something else.
        plain = '"' not in value and "\\" not in value and " ".join(value.split()) == value
        return value if plain and parse_line(value) == {"text": value} else _quoted(value)
    return f"{name.replace('_', '-')}:{value if _PLAIN.fullmatch(value) else _quoted(value)}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquoted(word: str) -> str:
    """Return a word without its quotes; in quotes a backslash takes the next character as it is."""
    return _QUOTED.sub(lambda found: _ESCAPED.sub(r"\1", found[1]), word)


class Scope(NamedTuple):
    """The sessions that a page is about.

    Attributes:
        given: the header's filters that the address has, as texts.
        origin: the origin of the sessions: production where there is some, unless the address has another.
    """

    given: Mapping[str, str]
    origin: OriginFilter

    @property
    def filters(self) -> dict[str, str]:
        """The filters of the list that leave these sessions."""
        return {**self.given, "origin": str(self.origin)}

    def sessions(self, only: Collection[str] | None = None, *without: str) -> SessionFilter:
        """Return the condition on these sessions, of those of the ids `only`, without some filters."""
        filters = {name: text for name, text in self.filters.items() if name not in without}
        return session_filter(filters, only)

    def values(self) -> dict[str, Any]:
        """Return what the header of a page of these sessions needs."""
        return {
            "scope": dict(self.given),
            "scoped": SCOPE,
            "origins": tuple(map(str, OriginFilter)),
            "origin": self.origin,
            "elsewhere": False,
        }


def scope_of(store: Store, texts: Mapping[str, str]) -> Scope:
    """Return the scope in the parameters of a URL. Raises InputError for an origin that there is not."""
    given = given_scope(texts)
    return Scope(given, listed_origin(store, given.get("origin")))


def given_scope(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the header's filters in the parameters of a URL."""
    return {name: text for name in SCOPE if (text := texts.get(name, "")).strip()}


def header_elsewhere(given: Mapping[str, str]) -> dict[str, Any]:
    """Return what the header of a page needs whose content does not depend on the filters: they lead away."""
    return {
        "scope": dict(given),
        "scoped": SCOPE,
        "origins": ("", *map(str, OriginFilter)),
        "origin": given.get("origin", ""),
        "elsewhere": True,
    }
