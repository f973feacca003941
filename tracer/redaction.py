"""Redaction: take personal data and secrets out of spans and logs before they are stored.

A finding is masked (`[email]`), or replaced by a keyed digest (`[email:1f0c…]`), so that equal values stay
equal. Found are the values of keys that announce a secret, in attributes, in JSON and in text, and in all
other text e-mail addresses, card numbers and IBANs (with valid check digits), API keys, bearer and JSON web
tokens, private keys, credentials and signatures in URLs, social security numbers, and phone numbers written
with `+` and a country code or in the groups of North America. Not found are names, postal addresses, bare
digits, base64, letters of other alphabets that look like Latin ones, a password in a sentence, and a value
that is split over two attributes. Where those matter, switch content capture off.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache
from operator import is_
from typing import Any, Literal, NamedTuple, TypeVar, cast

import orjson

from spangrade.tracer.assigned_secrets import NAME_KEYS, VALUE_KEYS
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.lookalike_letters import fold
from spangrade.tracer.sensitive_text import findings, is_card
from spangrade.tracer.span import Attributes, LogRecord, Span

Mode = Literal["mask", "hash"]
Record = TypeVar("Record", bound=Span | LogRecord)

VARIABLE = "SPANGRADE_REDACT"
KEY_VARIABLE = "SPANGRADE_REDACT_KEY"

# Fields that hold no text of their own: ids, times, and words from a fixed list. All others are redacted.
KEPT = frozenset({"trace_id", "span_id", "parent_span_id", "kind", "start_ns", "end_ns", "time_ns", "status"})

# Keys are compared word by word: apiKey, api.key and API-KEY are all api_key.
_SECRET_KEY = re.compile(
    r"passw(?:or)?d|passphrase|passcode|secret(?!ar)|credential|cookie|authorization"
    r"|api_?key|private_?key|(?:^|_)pwd(?:_|$)"
    r"|(?:^|_)(?:access|account|signing|encryption|master|ssh|subscription|storage)_?keys?(?:_|$)"
    r"|(?:access|refresh|auth|session|csrf|xsrf|bearer|security)_?tokens?(?:_|$)|(?:^|_)id_?tokens?(?:_|$)"
    r"|(?:^|_)(?:user|db|database|smtp|ftp|mail|login|admin|root|proxy|redis|mysql|postgres|pg)_?pass$"
    # A last word "token", unless it is one of a text's tokens or a place in a list.
    r"|^(?!(?:.*_)?(?:page|next|continuation|cursor|sync|resume|eos|bos|pad|unk|sep|cls|mask|stop|start|end|first|last"
    r"|per|to|input|output|prompt|completion|cached?|reasoning|total|max|min|special|text|word|sub|new)_token$)"
    r"(?:.*_)?token$"
)
_KEY_WORDS = ("pass", "pwd", "secret", "credential", "cookie", "authorization", "key", "token")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_IDENTIFIER = re.compile(r"(?:.*[._-])?id|.*[a-z]Id", re.DOTALL)
_DEPTH = 100
_MAX_KEYS = 10_000  # remembered
_MAX_KEY_CHARS = 200  # of a key that is remembered
# Texts that are remembered: agents send the same prompts and messages again with every call.
_MAX_TEXTS = 2_048
_MAX_TEXT_CHARS = 2_000
# The history of a conversation comes again with every model call, longer by what was said since.
_MIN_HISTORY_CHARS = 500
_BEGINNING_CHARS = 64  # by which a history is looked for
_MAX_HISTORIES = 32  # that begin alike, and are remembered
_MAX_HISTORIES_CHARS = 4_000_000  # of all that are remembered


class _Key(NamedTuple):
    """A key, redacted, and the kind of its value."""

    name: str
    secret: bool
    identifier: bool


class _History(NamedTuple):
    """A list of objects in JSON: its text without the end, and the same of its redacted items."""

    text: str
    redacted: str
    changed: bool
    whole: bool  # it is changed, or its text has nothing but what was parsed


class Redaction:
    """Takes personal data and secrets out of records. Use it as a function.

    `hash` needs a key, so that nobody can find a value by trying all of them; without the argument it is
    $SPANGRADE_REDACT_KEY. The value of a key named `…id` is always replaced by a digest, so that sessions and
    calls stay apart: without a key, by one that differs from process to process.

    `keys` are more patterns of keys whose value is a secret; `*` is any text, and case does not count.
    Raises InputError if a key is missing.
    """

    def __init__(self, mode: Mode, keys: Iterable[str] = (), *, key: str | None = None) -> None:
        key = key or os.environ.get(KEY_VARIABLE)
        if mode == "hash" and not key:
            raise InputError(f"redaction by hash needs a secret: set ${KEY_VARIABLE}")
        patterns = [pattern.lower() for pattern in keys]
        self._mode = mode
        self._key = key.encode() if key else secrets.token_bytes(32)
        self._patterns = re.compile("|".join(map(translate, patterns))) if patterns else None
        self._key_words = (
            *_KEY_WORDS,
            *(max(re.split(r"[*?\[\]]", pattern), key=len) for pattern in patterns),
        )
        self._known: dict[str, _Key] = {}
        self._resource: tuple[Attributes, Attributes] = ({}, {})
        self._histories: dict[tuple[int, str], list[_History]] = {}
        self._histories_chars = 0
        self._remembered = lru_cache(_MAX_TEXTS)(self._text)

    def __call__(self, record: Record) -> Record:
        """Return the record redacted; ids and times stay as they are."""
        changes: dict[str, Any] = {}
        for field, value in zip(record._fields, record, strict=True):
            if field in KEPT or not value:
                continue
            if field == "resource":
                new: Any = self._shared(value)
            elif field in {"events", "links"}:
                new = [self._part(part) for part in value]
            else:
                new = self._value(value, _DEPTH, False)
            if new is not value:
                changes[field] = new
        return cast(Record, record._replace(**changes))

    def value(self, value: Any) -> Any:
        """Return a JSON value redacted: the same object if there is nothing to redact."""
        return self._value(value, _DEPTH, False)

    def _part(self, part: Attributes) -> Attributes:
        """Return an event or a link redacted."""
        return {
            field: value if field in KEPT else self._value(value, _DEPTH, False)
            for field, value in part.items()
        }

    def _shared(self, resource: Attributes) -> Attributes:
        # One object for all spans of a request stays one: it is written once.
        before, after = self._resource
        if before is not resource:
            after = self._value(resource, _DEPTH, False)
            self._resource = (resource, after)
        return after

    def _value(self, value: Any, depth: int, identifier: bool) -> Any:
        """Return a JSON value redacted: the same object if there is nothing to redact."""
        if isinstance(value, str):
            return self._content(value, depth, identifier)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int | float):
            return self._number(value, identifier)
        if not depth:
            return self._replaced("deep", dumps(value), identifier)
        if isinstance(value, dict):
            return self._object(value, depth, identifier)
        if isinstance(value, list | tuple):
            items = [
                self._pair(item, depth - 1, identifier)
                if isinstance(item, list | tuple) and len(item) == 2
                else self._value(item, depth - 1, identifier)
                for item in value
            ]
            return value if all(map(is_, items, value)) else items
        return self._leaf(str(value), identifier)

    def _object(self, value: dict[Any, Any], depth: int, identifier: bool) -> dict[Any, Any]:
        changed = {}
        same = True
        named = not VALUE_KEYS.isdisjoint(value) and self._names_secret(value)
        for key, item in value.items():
            known = self._known.get(key) or self._of_key(str(key))
            if known.secret or (named and known.name in VALUE_KEYS):
                new = self._secret(item, identifier)
            else:
                new = self._value(item, depth - 1, identifier or known.identifier)
            same = same and new is item and known.name == key
            changed[known.name] = new
        return value if same else changed

    def _names_secret(self, value: dict[Any, Any]) -> bool:
        """Return whether an object is such as {"name": "password", "value": …}."""
        return any(
            isinstance(name := value.get(key), str) and len(name) <= _MAX_KEY_CHARS and self._is_secret(name)
            for key in NAME_KEYS
        )

    def _pair(self, pair: Any, depth: int, identifier: bool) -> Any:
        """Return a list of a name and a value redacted, such as a header."""
        name, value = pair
        if isinstance(name, str) and len(name) <= _MAX_KEY_CHARS and self._is_secret(name):
            return [name, self._secret(value, identifier)]
        return self._value(pair, depth, identifier)

    def _secret(self, value: Any, identifier: bool) -> Any:
        if value is None or isinstance(value, bool):
            return value
        return self._replaced("redacted", dumps(value), identifier)

    def _content(self, text: str, depth: int, identifier: bool) -> str:
        """Return a value's text redacted; if it is JSON, its parts, however they are escaped there."""
        if depth and text.lstrip()[:1] in ("{", "[", '"'):
            if not identifier and len(text) >= _MIN_HISTORY_CHARS and text.startswith("[{"):
                history = self._history(text, depth)
                if history is not None:
                    if history.changed:
                        return f"{history.redacted}]"
                    return text if history.whole else self._leaf(text, identifier, keys=False)
            try:
                parsed = orjson.loads(text)
            except orjson.JSONDecodeError:
                pass
            else:
                changed = self._value(parsed, depth - 1, identifier)
                if changed is not parsed:
                    return dumps(changed)
                if _is_whole(parsed, text):
                    return text
                # Of a key that is there twice, one value was parsed: the text is searched, but not for keys.
                return self._leaf(text, identifier, keys=False)
        return self._leaf(text, identifier)

    def _history(self, text: str, depth: int) -> _History | None:
        """Return a list of objects redacted, reading only its new items; None for any other value."""
        key = depth, text[:_BEGINNING_CHARS]
        alike = self._histories.get(key, [])
        known = max((one for one in alike if text.startswith(one.text)), key=_length, default=None)
        if known is None:
            before, rest = "[", text[1:]
        elif text == f"{known.text}]":
            return known
        else:
            before, rest = f"{known.redacted},", text[len(known.text) :].lstrip()
            if not rest.startswith(","):
                return None
            rest = rest[1:].lstrip()
        try:
            items = orjson.loads(f"[{rest}")
        except orjson.JSONDecodeError:
            return None
        if not items or text[-1] != "]":
            return None
        redacted = [self._value(item, depth - 2, False) for item in items]
        changed = (known is not None and known.changed) or not all(map(is_, redacted, items))
        whole = changed or ((known is None or known.whole) and _is_whole(items, f"[{rest}"))
        history = _History(text[:-1], before + dumps(redacted)[1:-1], changed, whole)
        others = [one for one in alike if one is not known][1 - _MAX_HISTORIES :]
        self._histories_chars += len(history.text) + sum(map(_length, others)) - sum(map(_length, alike))
        if self._histories_chars > _MAX_HISTORIES_CHARS:
            self._histories, self._histories_chars, others = {}, len(history.text), []
        self._histories[key] = [*others, history]
        return history

    def _number(self, number: float, identifier: bool) -> Any:
        if abs(number) >= 1e12 and number == number // 1:
            digits = str(int(abs(number)))
            return self._replaced("card", digits, identifier) if is_card(digits) else number
        return number

    def _leaf(self, text: str, identifier: bool, *, keys: bool = True) -> str:
        find = self._remembered if len(text) <= _MAX_TEXT_CHARS else self._text
        redacted = find(text, identifier, keys)
        return text if redacted is None else redacted

    def _text(self, text: str, identifier: bool, keys: bool) -> str | None:
        """Return a text redacted, or None if there is nothing to redact."""
        folded = fold(text)
        pieces: list[str] = []
        last = 0
        for start, end, kind in findings(folded.text, self._is_secret, self._key_words if keys else ()):
            value = folded.text[start:end]
            start, end = folded.original(start, end)
            if kind == "card":
                value = "".join(filter(str.isdigit, value))
            pieces += (text[last:start], self._replaced(kind, value, identifier))
            last = end
        return "".join((*pieces, text[last:])) if pieces else None

    def _is_secret(self, key: str) -> bool:
        return (self._known.get(key) or self._of_key(key)).secret

    def _of_key(self, key: str) -> _Key:
        plain = fold(key).text
        secret = _SECRET_KEY.search("_".join(_WORD.findall(plain)).lower()) or (
            self._patterns is not None and self._patterns.match(plain.lower())
        )
        known = _Key(self._content(key, _DEPTH, False), bool(secret), bool(_IDENTIFIER.fullmatch(plain)))
        if len(self._known) < _MAX_KEYS and len(key) <= _MAX_KEY_CHARS:
            self._known[key] = known
        return known

    def _replaced(self, kind: str, value: str, identifier: bool) -> str:
        if self._mode == "mask" and not identifier:
            return f"[{kind}]"
        digest = hmac.new(self._key, value.encode(errors="replace"), hashlib.sha256).hexdigest()
        return f"[{kind}:{digest[:16]}]"


def _is_whole(parsed: Any, text: str) -> bool:
    """Return whether a text is the parsed value alone, as the usual libraries write it."""
    return (
        dumps(parsed) == text or json.dumps(parsed, ensure_ascii=False) == text or json.dumps(parsed) == text
    )


def _length(history: _History) -> int:
    return len(history.text)


def redaction(setting: str | Redaction | None) -> Redaction | None:
    """Return the redaction of a setting: `off`, `mask` or `hash`, and after a colon patterns of keys.

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
