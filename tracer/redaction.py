"""Redaction: personal data and secrets taken out of spans and logs before they are stored.

What is found is masked (`[email]`), or replaced by a keyed digest (`[email:1f0c…]`) by which equal values
stay equal. Found are the values of keys that match a pattern, and in every other text: e-mail addresses,
payment card numbers (with a valid check digit), API keys, bearer tokens, private keys, and phone numbers
that are written as such: with `+` and a country code, or in the groups of North America. Names, postal
addresses, bare digits and what is in base64 are not found: for those, switch content capture off.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable
from fnmatch import translate
from typing import Any, Literal, NamedTuple, TypeVar

import orjson

from spangrade.tracer.canonical_json import dumps
from spangrade.tracer.errors import InputError
from spangrade.tracer.span import Attributes, LogRecord, Span

Mode = Literal["mask", "hash"]
Record = TypeVar("Record", bound=Span | LogRecord)

VARIABLE = "SPANGRADE_REDACT"
KEY_VARIABLE = "SPANGRADE_REDACT_KEY"

# Keys whose value goes whole, whatever it is; `*` is any text, case does not count.
KEYS = (
    *("*password*", "*passwd*", "*passphrase*", "*secret*", "*credential*", "*cookie*", "*authorization*"),
    *("*api_key*", "*api-key*", "*apikey*", "*private_key*", "*privatekey*", "token", "*access_token*"),
    *("*accesstoken*", "*refresh_token*", "*refreshtoken*", "*id_token*", "*auth_token*", "*authtoken*"),
)

# Each with what its text has in it, one or the other: to look for that costs a hundredth.
_PATTERNS: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (kind, marks, re.compile(text, re.DOTALL))
    for kind, marks, text in (
        ("key", ("-----BEGIN",), r"-----BEGIN [A-Z ]*PRIVATE KEY.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
        ("key", ("eyJ",), r"eyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*"),  # a JSON web token
        ("key", ("earer", "EARER"), r"(?i:\bbearer)[\s:=]+[\w.~+/-]{8,}=*"),
        ("key", ("sk-", "sk_", "pk_", "rk_"), r"(?<![A-Za-z0-9])(?:sk-|[spr]k_)[\w-]{16,}"),
        ("key", ("AIza",), r"AIza[\w-]{30,}"),
        ("key", ("gh", "glpat-", "hf_"), r"(?<![A-Za-z0-9])(?:gh[a-z]_|github_pat_|glpat-|hf_)[\w-]{16,}"),
        ("key", ("xox",), r"(?<![A-Za-z0-9])xox[a-z]-[\w-]{10,}"),
        ("key", ("AKIA", "ASIA"), r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])"),
        ("email", ("@", "%40"), r"[\w.+'-]{1,64}(?:@|%40)[\w-]+(?:\.[\w-]+)+"),
        ("phone", ("+", "%2B"), r"(?<![\w.])(?:\+|%2B)\d(?:[ ().\-/\xa0]{0,2}\d){6,14}(?!\d)"),
    )
)
# The first digit stands before what must not precede it: the search for it is five times as fast then.
_PHONE = re.compile(
    r"[0-9(](?<![\w.+-][0-9(])"
    r"(?:(?<=1)[ .-]\(?[0-9]{3}\)?|(?<=\()[0-9]{3}\)|(?<=[0-9])[0-9]{2})[ .-]?[0-9]{3}[ .-][0-9]{4}(?![\d-])"
)
_CARD = re.compile(r"[0-9](?<![\d.][0-9])(?:[ \-\xa0]?[0-9]){12,}+(?!\.\d)")
_GROUP = re.compile(r"\d+")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_IDENTIFIER = re.compile(r"(?:.*[._-])?id|.*[a-z]Id", re.DOTALL)
_DEPTH = 100
_MOST_KEYS = 10_000  # remembered


class _Key(NamedTuple):
    """A key without what is to be redacted, and what its value is."""

    name: str
    secret: bool
    identifier: bool


class Redaction:
    """Takes personal data and secrets out of records. Use it as a function.

    `hash` needs a key, so that nobody can find a value by trying all of them; it is else
    $SPANGRADE_REDACT_KEY. What a key named `…id` has is always replaced by a digest, for sessions and calls
    not to fall together: without a key, by one that differs from process to process.

    Raises InputError where a key is missing.
    """

    def __init__(self, mode: Mode, keys: Iterable[str] = (), *, key: str | None = None) -> None:
        key = key or os.environ.get(KEY_VARIABLE)
        if mode == "hash" and not key:
            raise InputError(f"redaction by hash needs a secret: set ${KEY_VARIABLE}")
        self._mode = mode
        self._key = key.encode() if key else secrets.token_bytes(32)
        self._keys = re.compile("|".join(translate(pattern.lower()) for pattern in (*KEYS, *keys)))
        self._known: dict[str, _Key] = {}
        self._resource: tuple[Attributes, Attributes] = ({}, {})

    def __call__(self, record: Record) -> Record:
        """Return the record without what is to be redacted; ids and times stay."""
        if isinstance(record, Span):
            return record._replace(
                name=self._words(record.name),
                status_message=self._optional(record.status_message),
                attributes=self._attributes(record.attributes),
                events=[
                    part
                    | {"name": self._words(part["name"]), "attributes": self._attributes(part["attributes"])}
                    for part in record.events
                ],
                links=[part | {"attributes": self._attributes(part["attributes"])} for part in record.links],
                resource=self._shared(record.resource),
                trace_state=self._optional(record.trace_state),
            )
        return record._replace(
            event_name=self._optional(record.event_name),
            body=self._value(record.body, _DEPTH, False),
            attributes=self._attributes(record.attributes),
            resource=self._shared(record.resource),
        )

    def _words(self, text: str) -> str:
        return self._content(text, _DEPTH, False)

    def _optional(self, text: str | None) -> str | None:
        return text and self._words(text)

    def _shared(self, resource: Attributes) -> Attributes:
        # One object for all spans of a request stays one: it is written once.
        before, after = self._resource
        if before is not resource:
            after = self._attributes(resource)
            self._resource = (resource, after)
        return after

    def _attributes(self, attributes: Attributes) -> Attributes:
        redacted: Attributes = self._value(attributes, _DEPTH, False)
        return redacted

    def _value(self, value: Any, depth: int, identifier: bool) -> Any:
        """Return a JSON value without what is to be redacted: the same object where there is nothing."""
        if isinstance(value, str):
            return self._content(value, depth, identifier)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int | float):
            return self._number(value, identifier)
        if not depth:
            return self._replaced("deep", dumps(value), identifier)
        if isinstance(value, dict):
            changed = {}
            same = True
            for key, item in value.items():
                known = self._known.get(key) or self._of_key(str(key))
                if known.secret:
                    new = item if item is None else self._replaced("redacted", dumps(item), identifier)
                else:
                    new = self._value(item, depth - 1, identifier or known.identifier)
                same = same and new is item and known.name == key
                changed[known.name] = new
            return value if same else changed
        if isinstance(value, list | tuple):
            items = [self._value(item, depth - 1, identifier) for item in value]
            return value if all(new is old for new, old in zip(items, value, strict=True)) else items
        return self._text(str(value), identifier)

    def _content(self, text: str, depth: int, identifier: bool) -> str:
        """Return a value's text redacted; where it is JSON, its parts, however they are escaped there."""
        if depth and text.lstrip()[:1] in ("{", "[", '"'):
            try:
                parsed = orjson.loads(text)
            except orjson.JSONDecodeError:
                pass
            else:
                changed = self._value(parsed, depth - 1, identifier)
                if changed is not parsed:
                    return dumps(changed)
                if dumps(parsed) == text:
                    return text
        return self._text(text, identifier)  # JSON too: a key that is there twice was parsed once

    def _number(self, number: float, identifier: bool) -> Any:
        if abs(number) >= 1e12 and number == number // 1:
            text = str(int(abs(number)))
            found = self._cards(text, identifier)
            return number if found == text else found
        return number

    def _text(self, text: str, identifier: bool = False) -> str:
        plain = text
        if "\\" in text:
            plain = _ESCAPE.sub(lambda found: _unescaped(found[0], found[1]), text)
        redacted = plain
        for kind, marks, pattern in _PATTERNS:
            for mark in marks:
                if mark in redacted:
                    redacted = self._without(kind, pattern, redacted, identifier)
                    break
        redacted = self._cards(redacted, identifier)
        redacted = self._without("phone", _PHONE, redacted, identifier)
        return text if redacted == plain else redacted

    def _without(self, kind: str, pattern: re.Pattern[str], text: str, identifier: bool) -> str:
        return pattern.sub(lambda found: self._replaced(kind, found[0], identifier), text)

    def _cards(self, text: str, identifier: bool) -> str:
        return _CARD.sub(lambda found: self._card(found[0], identifier), text)

    def _card(self, run: str, identifier: bool) -> str:
        """Return digits in groups without those that are a card's number: it begins and ends with a group."""
        groups = list(_GROUP.finditer(run))
        for first, begin in enumerate(groups):
            digits = ""
            for last in groups[first:]:
                digits += last[0]
                if len(digits) > 19:
                    break
                if len(digits) >= 13 and digits[0] in "23456" and _luhn(digits):
                    rest = self._card(run[last.end() :], identifier)
                    return run[: begin.start()] + self._replaced("card", digits, identifier) + rest
        return run

    def _of_key(self, key: str) -> _Key:
        secret, identifier = self._keys.match(key.lower()), _IDENTIFIER.fullmatch(key)
        known = _Key(self._words(key), bool(secret), bool(identifier))
        if len(self._known) < _MOST_KEYS:
            self._known[key] = known
        return known

    def _replaced(self, kind: str, value: str, identifier: bool) -> str:
        if self._mode == "mask" and not identifier:
            return f"[{kind}]"
        digest = hmac.new(self._key, value.encode(errors="replace"), hashlib.sha256).hexdigest()
        return f"[{kind}:{digest[:16]}]"


def redaction(setting: str | Redaction | None) -> Redaction | None:
    """Return what a setting asks for: `off`, `mask` or `hash`, and after a colon more patterns of keys.

    `mask:*iban*,*ssn*` for instance; None is $SPANGRADE_REDACT. Raises InputError for anything else.
    """
    if isinstance(setting, Redaction):
        return setting
    text = os.environ.get(VARIABLE, "") if setting is None else setting
    mode, _, patterns = text.strip().partition(":")
    keys = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    match mode.lower():
        case "" | "off":
            return None
        case "mask":
            return Redaction("mask", keys)
        case "hash":
            return Redaction("hash", keys)
    raise InputError(f"redaction is {text[:40]!r}: use off, mask or hash, and patterns of keys after a colon")


def _luhn(digits: str) -> bool:
    # https://en.wikipedia.org/wiki/Luhn_algorithm
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (doubled + sum(map(int, digits[-1::-2]))) % 10 == 0


def _unescaped(escape: str, digits: str) -> str:
    letter = chr(int(digits, 16))
    return letter if letter.isprintable() and letter not in '"\\' else escape
