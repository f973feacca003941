"""Find the secrets that a key announces in text that is not JSON.

`password=…` in a URL, `DB_PASSWORD: …` in a log line, JSON behind a prefix or cut short, Python's
dictionaries, `--token …` on a command line, and `"name": "password", "value": …`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

NAME_KEYS = frozenset({"name", "key", "field", "header", "param", "parameter", "variable"})
VALUE_KEYS = frozenset({"value", "Value", "val", "default", "defaultValue"})

# A key is read whole from its beginning, and a quoted string to its end, for the search to stay linear.
_PAIR = re.compile(
    r"(?<![\w.-])(?:(?P<flag>--(?=\w))|[.-]*+)(?P<key>\w[\w.-]*+(?:[ ](?i:keys?|token|password|is)\b)?+)"
    r"(?P<quote>\\*+[\"'])?+\]?+(?P<before>\s{0,3}+)"
    r"(?:(?P<sign>=>|:=|[:=](?!=)|%3[ADad])(?P<after>\s{0,3}+)|(?(flag)(?<=\s)|(?!))"
    r"|(?P<item>,\s{0,3})(?=[bBrRuU]?[\"'])|(?P<tag>>))"
)
_STRING = re.compile(
    r"(?:[bBrRuU]{1,2}(?=[\"']))?+(?:"
    r"(?P<escape>\\++)(?P<mark>[\"'])(?P<inner>.*?)(?:(?<!\\)(?P=escape)(?P=mark)|\Z)"
    r"|\"(?P<double>(?:[^\"\\]|\\.)*+)(?:\"|\\?\Z)|'(?P<single>(?:[^'\\]|\\.)*+)(?:'|\\?\Z))",
    re.DOTALL,
)
_BRACKET = re.compile(r"\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)|'(?:[^'\\]|\\.)*+(?:'|\\?\Z)|[\[\]{}()]", re.DOTALL)
_BARE = re.compile(r"[^\s,;&<>\"'`|)\]}\\\0]+")
_HEADERS = {
    "authorization": re.compile(
        r"(?i:digest|aws4-hmac-sha256) (?:[\w-]+=(?:\"[^\"]*+\"|[^\s,\"'\\\0]++)(?:,\s{0,3})?+){1,32}+"
        r"|(?:[A-Za-z][\w-]{0,31}+ )?+(?=[^\s\"']{8}|[^\s\"']*\d)[^\s\"'\\\0]+"
    ),
    "cookie": re.compile(r"[\w.-]{1,128}+=[^\r\n\"'\\\0]+"),
}
# A block of YAML: what stands under its key, as far as it is indented.
_BLOCK = re.compile(
    r"[|>][+-]?\d?[ \t]*+\n(?P<indent>[ \t]++)(?P<lines>[^\s][^\n\0]*(?:\n(?P=indent)[^\n\0]*)*)"
)
# ENV API_TOKEN … in a Dockerfile, set PASSWORD … in a shell.
_SET = re.compile(
    r"(?<!\S)(?:ENV|ARG|SET|setx?)[ ]{1,3}(?P<key>[A-Za-z_]\w{1,127})[ ]{1,3}(?P<value>[^\s\"'=,;\\\0]{6,})"
)
_CODE = re.compile(
    r"[A-Za-z_][\w.]{0,99}+[(\[]|\$[({]|\$[A-Z_]{2}|[{<]|%[a-z]\b|\*{1,99}+(?![^\s\"',;)])"
    r"|(?:os|self|env|process|config|settings)\."
)
_TYPE = re.compile(r"(?:[A-Z][a-z]+)+|[a-z]+(?:_[a-z]+)+")
_PASSWORD = re.compile(r"(?i)pass|pwd")
_END = re.compile(r"[ .,;]{0,3}(?:[\n\"']|\Z)")
_COMMA = re.compile(r"\s{0,9},\s{0,9}|\s{1,9}")
_NOTHING = frozenset((
    "none", "null", "nil", "true", "false", "undefined", "unset", "empty", "unknown", "yes", "no", "ok",
    "str", "string", "bytes", "bool", "int", "float", "any", "optional", "required", "missing", "hidden",
    "redacted", "invalid", "incorrect", "wrong", "expired",
))  # fmt: skip


class _Value(NamedTuple):
    """A value in a text: the whole of it, and the part without its quotes."""

    start: int
    end: int
    inner: tuple[int, int]


def assigned_secrets(text: str, secret_key: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """Yield where the values of secret keys stand, in order; quotes around them are left."""
    position = 0
    value_before: _Value | None = None  # of a pair "value": …, which a "name" may follow
    while pair := _PAIR.search(text, position):
        position = pair.end()
        key, quoted = pair["key"], pair["quote"] is not None
        if (pair["item"] or pair["tag"]) and not _is_item_or_tag(text, pair):
            continue
        if secret_key(key):
            value = _quoted(text, position) or _container(text, position, pair)
            place = value.inner if value else _bare(text, position, pair)
            if place:
                yield place
                position = value.end if value else place[1]
        elif quoted and key in VALUE_KEYS:
            value_before = _quoted(text, position)
        elif (quoted or pair["sign"] == "=") and key.lower().rpartition(" ")[2] in NAME_KEYS:
            name = _quoted(text, position)
            if name is None or not secret_key(text[slice(*name.inner)]):
                continue
            if value_before and _COMMA.fullmatch(
                text, value_before.end, pair.start("key") - len(pair["quote"] or "")
            ):
                yield value_before.inner
            position = name.end
            if (comma := _COMMA.match(text, position)) and (value := _named_value(text, comma.end())):
                yield value.inner
                position = value.end


def set_secrets(text: str, secret_key: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """Yield where the values stand that a Dockerfile or a shell sets secret variables to, in order."""
    for found in _SET.finditer(text):
        if any(letter.isdigit() for letter in found["value"]) and secret_key(found["key"]):
            yield found.span("value")


def _is_item_or_tag(text: str, pair: re.Match[str]) -> bool:
    """Return whether a key begins a tuple, as in ('password', '…'), or is a tag: <password>…</password>."""
    start, quote = pair.start("key"), pair["quote"]
    if pair["tag"]:
        return text[start - 1 : start] == "<" and not quote
    return bool(quote) and text[start - len(quote) - 1 : start - len(quote)] == "("


def _named_value(text: str, position: int) -> _Value | None:
    pair = _PAIR.search(text, position, position + 40)
    if pair is None or not (pair["quote"] or pair["sign"] == "=") or pair["key"] not in VALUE_KEYS:
        return None
    return _quoted(text, pair.end()) or _container(text, pair.end(), pair)


def _quoted(text: str, position: int) -> _Value | None:
    found = _STRING.match(text, position)
    if found is None:
        return None
    inner = next(found.span(name) for name in ("inner", "double", "single") if found[name] is not None)
    return _Value(*found.span(), inner) if inner[0] < inner[1] else None


def _container(text: str, position: int, pair: re.Match[str]) -> _Value | None:
    """Return a list or an object, whole; where its end is missing, to the end of the text."""
    if text[position : position + 1] not in {"[", "{"} or not (pair["quote"] or pair["sign"] == "="):
        return None
    depth, end = 0, len(text)
    for found in _BRACKET.finditer(text, position):
        depth += (found[0] in "[{(") - (found[0] in ")]}")
        if not depth:
            end = found.end()
            break
    return _Value(position, end, (position, end))


def _bare(text: str, position: int, pair: re.Match[str]) -> tuple[int, int] | None:
    """Return where a value without quotes stands, unless it is code or a word of a sentence."""
    key = pair["key"].lower()
    for name, pattern in _HEADERS.items():
        if name in key:
            found = pattern.match(text, position)
            return found.span() if found else None
    if block := _BLOCK.match(text, position):
        return block.span("lines")
    # Before the value is read: what is not taken is read again.
    if _CODE.match(text, position) or (found := _BARE.match(text, position)) is None:
        return None
    value = found[0].rstrip(" .:?")
    if value.lower() in _NOTHING or value.lower() == key:
        secret = False
    elif pair["quote"] or pair["tag"] or (pair["sign"] == "=" and not pair["before"] and not pair["after"]):
        secret = True
    elif value.isalpha() or _TYPE.fullmatch(value):
        # One word is a password where the line ends with it, but not in a sentence about passwords.
        last = _END.match(text, position + len(value)) is not None
        secret = last and value.isalpha() and pair["sign"] != "=" and bool(_PASSWORD.search(key))
    else:
        secret = len(value) >= 6 or bool(_PASSWORD.search(key))
    return (position, position + len(value)) if secret and value else None
