"""Names of tools in gates: whether a call is of a tool, and which name is meant by one that nobody has."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from spangrade.converters.datasets.call_rules import CallRule
from spangrade.evaluator.session import Session
from spangrade.tracer.base.lookalike_letters import plain_form

_WORDS = re.compile(r"[^\W\d_]+|\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PREFIX = re.compile(r"__|[./:]+")
_SERVER = re.compile(r"(?:^|[^a-z])(?:mcp|server)(?:$|[^a-z])", re.IGNORECASE)
_SHORTEST = 5  # letters of a word in which one may be wrong


@lru_cache(4096)
def plain_name(name: str) -> str:
    """Return a name as names are compared: look-alike letters and spaces around it hide nothing."""
    return plain_form(name).strip()


def is_one(name: str, tools: Collection[str]) -> bool:
    """Return whether a name is that of one of some tools."""
    return name in tools or plain_name(name) in map(plain_name, tools)


def names_in(asked: Mapping[str, Iterable[CallRule]]) -> list[str]:
    """Return the names of the tools in what is asked of calls, by kind."""
    return [name for rules in asked.values() for one in rules for name in one.tools]


def near_names(session: Session, names: Collection[str]) -> Mapping[str, str]:
    """Return the names of a gate that may be misspelled, each with the name of a call that may be meant.

    The session called or requested no tool of this name, none is declared, and the gate does not name the
    other one, too.
    """
    called = {call.tool_name for call in session.tool_interactions}
    called.update(call.tool_name for call in session.requested_calls)
    if all(name in called for name in names):
        return {}
    found = near_of(names, called)
    if not found:
        return found
    declared = {plain_name(tool) for _, tool in session.declared_to or ()}
    return {name: near for name, near in found.items() if plain_name(name) not in declared}


def near_of(names: Collection[str], others: Collection[str]) -> Mapping[str, str]:
    """Return the names of a gate that are not among others, each with one that is nearly it."""
    by_plain = {plain_name(other): other for other in others}
    missing = [name for name in names if plain_name(name) not in by_plain]
    if not missing:
        return {}
    named = set(map(plain_name, names))
    possible = sorted(plain for plain in by_plain if plain not in named)
    kebab = _is_kebab(by_plain)
    found = {}
    for name in missing:
        wanted = plain_name(name)
        near = next((plain for plain in possible if _is_near(wanted, plain, kebab)), None)
        if near is not None:
            found[name] = by_plain[near].strip()
    return found


def did_you_mean(near: Mapping[str, str]) -> str:
    """Return that names may be misspelled, empty without any."""
    return "; ".join(f'{name} was not called; did you mean "{other}"?' for name, other in near.items())


def _is_kebab(names: Iterable[str]) -> bool:
    """Return whether names are written with a "-" between their words, and not after that of a server."""
    dashed = set()
    for name in names:
        if "_" in name or name != name.lower():
            return False
        first, dash, _ = name.partition("-")
        if dash:
            dashed.add((first, name))
    return len(dashed) == 1 or len({first for first, _ in dashed}) > 1


@lru_cache(65_536)
def _is_near(name: str, other: str, kebab: bool) -> bool:
    """Return whether names differ in case and separators, in a prefix, or in one letter."""
    return any(_is_alike(name, part) for part in (other, *_without_prefix(other, kebab))) or any(
        _is_alike(part, other) for part in _without_prefix(name, kebab)
    )


def _without_prefix(name: str, kebab: bool) -> Iterable[str]:
    """Yield what stands after each prefix of a name: of a package, of a client, of a server."""
    for found in _PREFIX.finditer(name):
        yield name[found.end() :]
    for place, letter in enumerate(name):
        if letter == "-" and (not kebab or _SERVER.search(name[:place])):
            yield name[place + 1 :]


def _is_alike(name: str, other: str) -> bool:
    left, right = _words(name), _words(other)
    if not left or not right:
        return False
    if "".join(left) == "".join(right):
        return True
    if len(left) != len(right):
        if min(len(left), len(right)) > 1:
            return False
        left, right = ("".join(left),), ("".join(right),)
    differing = [pair for pair in zip(left, right, strict=True) if pair[0] != pair[1]]
    return len(differing) == 1 and _is_one_edit(*differing[0])


@lru_cache(4096)
def _words(name: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in _WORDS.findall(_HUMP.sub(" ", name)))


def _is_one_edit(word: str, other: str) -> bool:
    """Return whether one letter of a word was added, left out, replaced, or swapped with the next.

    The plural of a short word (`users`) is another word.
    """
    short, long = sorted((word, other), key=len)
    if len(long) - len(short) > 1 or len(short if long == f"{short}s" else long) < _SHORTEST:
        return False
    start = 0
    while start < min(len(word), len(other)) and word[start] == other[start]:
        start += 1
    left, right = word[start:], other[start:]
    if any(letter.isdigit() for letter in left[:1] + right[:1]):
        return False
    return (
        left[1:] == right[1:]
        or left == right[1:]
        or left[1:] == right
        or (left[1::-1] == right[:2] and left[2:] == right[2:])
    )
