"""Find personal data and secrets in text by their shape.

Each search takes time in proportion to the text: a pattern consumes what it reads, or reads a bounded number
of characters. Most texts contain nothing, so a pattern only runs where a text contains one of its marks: that
test costs a hundredth of the pattern.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from spangrade.tracer.assigned_secrets import assigned_secrets


class Finding(NamedTuple):
    """What is sensitive in a text: where, and of which kind."""

    start: int
    end: int
    kind: str


class _Pattern(NamedTuple):
    kind: str
    marks: tuple[str, ...]  # a text without any of them has nothing for the pattern
    pattern: re.Pattern[str]  # its first group, or else the whole match, is what is sensitive
    check: Callable[[str], bool] | None = None


def _basic_credentials(match: str) -> bool:
    encoded = match.rsplit(maxsplit=1)[-1]
    try:
        return b":" in base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except binascii.Error:
        return False


def _looks_random(key: str) -> bool:
    """Return whether a key is more than words with hyphens between them, such as a CSS class."""
    return any(letter.isdigit() for letter in key) or any(len(part) >= 16 for part in key.split("-"))


def _bearer_token(match: str) -> bool:
    token = match.rsplit(maxsplit=1)[-1]
    return len(token) >= 20 or any(letter.isdigit() for letter in token)


_SIGNS = (":", "=", "--", "%3", "('", '("', "</")  # between a key and its value, or around them
# What the keys of vendors begin with.
_GIT_HOSTS = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-")
_MODELS = (
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "hf_",
    "gsk_",
    "xai-",
    "pplx-",
    "nvapi-",
    "r8_",
    "lsv2_",
    "pcsk_",
    "tvly-",
)
_PACKAGES = ("npm_", "pypi-", "rubygems_")
_SERVICES = (
    "dop_v1_",
    "shpat_",
    "shpss_",
    "whsec_",
    "sntrys_",
    "hvs.",
    "ya29.",
    "GOCSPX-",
    "xapp-",
    "PMAK-",
    "SG.",
    "dckr_pat_",
    "glsa_",
    "glc_",
    "ATATT3",
    "HRKU-",
    "sbp_",
    "ntn_",
    "lin_api_",
    "NRAK-",
    "ops_eyJ",
    "AGE-SECRET-KEY-1",
)
_VENDORS = (*_GIT_HOSTS, *_MODELS, *_PACKAGES, *_SERVICES)
# The user and password of a URL: the password alone goes.
_USER_INFO = _Pattern("key", ("@",), re.compile(r"(?<=://)[^\s/:@?\"'<>\\]{0,128}+:([^\s/?\"'<>\\]+)@"), None)
_PATTERNS = (
    _Pattern(
        "key",
        ("-----BEGIN",),
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    ),
    _Pattern(
        "key", ("eyJ",), re.compile(r"(?<![\w-])eyJ[\w-]{5,}+\.[\w-]{5,}+\.[\w-]*+")
    ),  # a JSON web token
    _Pattern(
        "key", ("earer", "EARER"), re.compile(r"(?i:\bbearer)[\s:=]{1,9}[\w.~+/-]{8,}+=*+"), _bearer_token
    ),
    _Pattern(
        "key", ("asic ", "ASIC "), re.compile(r"(?i:\bbasic) {1,9}[\w+/-]{8,}+={0,2}+"), _basic_credentials
    ),
    _Pattern(
        "key",
        _VENDORS,
        re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, _VENDORS))})[\w.-]{{15,}}(?<=[\w-])"),
        _looks_random,
    ),
    # The signature of a URL that opens an object for whoever has it: S3, Google Cloud Storage, Azure.
    _Pattern(
        "key",
        ("-Signature=", "sig="),
        re.compile(r"[?&](?:X-Amz-Signature|X-Goog-Signature|sig)=([\w%+/=-]{20,}+)"),
    ),
    _Pattern("key", (":AA",), re.compile(r"(?<!\d)\d{8,10}:AA[\w-]{33}(?![\w-])")),  # a bot of Telegram
    _Pattern("key", (".atlasv1.",), re.compile(r"(?<!\w)\w{14}\.atlasv1\.[\w-]{40,}+")),  # Terraform
    _Pattern("key", ("AIza",), re.compile(r"AIza[\w-]{30,}+")),
    _Pattern("key", ("xox",), re.compile(r"(?<![A-Za-z0-9])xox[a-z]-[\w-]{10,}+")),
    _Pattern("key", ("AKIA", "ASIA"), re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])")),
    _Pattern("key", ("dapi",), re.compile(r"(?<![A-Za-z0-9])dapi[0-9a-f]{32}(?![0-9a-f])")),
    _Pattern("key", ("hooks.slack.com/",), re.compile(r"hooks\.slack\.com/services/([\w/]+)")),
    _Pattern(
        "email",
        ("@", "%40"),
        # The part before the "@" is read whole from its beginning, for the search to stay linear.
        re.compile(
            r"(?<![\w.+'-])['.-]*+(?!git@)([\w+][\w.+'-]*+(?:@|%40)[\w-]+(?:\.[\w-]+)*\.(?=[\w-]*[^\W\d_])[^\W_][\w-]+)"
        ),
    ),
    # user:password@host without a scheme. A host is neither a version nor a digest, as in image:1.0@sha256:…
    _Pattern(
        "key",
        ("@",),
        re.compile(
            r"(?<=\w:)([^\s/:@,;\"'<>\\\0]{3,128}+)@(?!sha\d|v?\d+(?:\.\d+){0,2}(?![.\d]))(?=[A-Za-z0-9])"
        ),
    ),
    # curl -u user:password
    _Pattern(
        "key",
        ("-u ", "--user "),
        re.compile(r"(?<!\S)(?:-u|--user) {1,3}[\"']?[^\s:\"'\\]{1,64}+:(?!\d+(?!\S))([^\s\"'\\]+)"),
    ),
    _Pattern("phone", ("+", "%2B"), re.compile(r"(?<![\w.])(?:\+|%2B)\d(?:[ ().\-/]{0,2}\d){6,14}(?!\d)")),
)
# The first digit stands before what must not precede it: the search for it is five times as fast then.
_PHONE = re.compile(
    r"[0-9(](?<![\w.+-][0-9(])"
    r"(?:(?<=1)[ .-]\(?[0-9]{3}\)?|(?<=\()[0-9]{3}\)|(?<=[0-9])[0-9]{2})[ .-]?[0-9]{3}[ .-][0-9]{4}(?![\d-])"
)
_DIGITS = re.compile(r"[0-9](?<![\d.][0-9])(?:[ -]?[0-9]){12,}+")
# With other marks between the groups a card is found in its own grouping only: decimals and dates look alike.
_PRINTED = re.compile(
    r"[0-9](?<![\d.][0-9])[0-9]{3}(?:(?P<a>[._/,]|[ \n]{1,2}| - )[0-9]{4}(?P=a)[0-9]{4}(?P=a)[0-9]{4}"
    r"|(?P<b>[._/,]|[ \n]{1,2}| - )[0-9]{6}(?P=b)[0-9]{5})(?![0-9]|[._/][0-9])"
)
_GROUP = re.compile(r"[0-9]+")
_HEX = re.compile(r"[0-9A-Fa-f-]*")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_13_TO_19, _14_TO_19 = range(13, 20), range(14, 20)
_DOUBLED = str.maketrans("0123456789", "0246813579")  # and the sum of both digits
_DIGEST_LENGTHS = frozenset({16, 24, 32, 40, 56, 64, 96, 128})
_IBAN = re.compile(
    r"[A-Z](?<![A-Za-z0-9][A-Z])[A-Z][0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"
)


def findings(text: str, secret_key: Callable[[str], bool], key_words: Sequence[str]) -> list[Finding]:
    """Return what is sensitive in a text, in order and without overlaps.

    The text is one that `fold` returned. `secret_key` says whether a key's value is a secret; every such key
    contains one of `key_words`.
    """
    found: list[Finding] = []

    def without(kind: str, places: Iterable[tuple[int, int]], text: str) -> str:
        pieces: list[str] = []
        last = 0
        for start, end in places:
            found.append(Finding(start, end, kind))
            pieces += (text[last:start], "\0" * (end - start))  # in its place, to not be found twice
            last = end
        return "".join((*pieces, text[last:])) if pieces else text

    if "@" in text and "://" in text:
        text = without(_USER_INFO.kind, _matches(_USER_INFO, text), text)
    if any(sign in text for sign in _SIGNS):
        lower = text.lower()
        if any(word in lower for word in key_words):
            text = without("redacted", assigned_secrets(text, secret_key), text)
    for pattern in _PATTERNS:
        for mark in pattern.marks:
            if mark in text:
                text = without(pattern.kind, _matches(pattern, text), text)
                break
    text = without("card", _cards(text), text)
    text = without("iban", _ibans(text), text)
    text = without("phone", (match.span() for match in _PHONE.finditer(text)), text)
    return sorted(found)


def is_card(digits: str) -> bool:
    """Return whether digits are a card's number: a known beginning, its length, and a valid check digit."""
    return len(digits) in _card_lengths(digits[:4]) and _luhn(digits)


def _card_lengths(beginning: str) -> Sequence[int]:
    """Return how long a card's number may be that begins with these four digits, shortest first."""
    match beginning[:1]:
        case "4":
            return (13, 16, 19)
        case "2":
            return (16,) if "2221" <= beginning <= "2720" else ()
        case "3":
            return (15,) if beginning[1:2] in "47" else _14_TO_19 if beginning[1:2] in "05689" else ()
        case "5":
            return (16,) if beginning[1:2] in "12345" else _13_TO_19 if beginning[1:2] in "0678" else ()
        case "6":
            return _13_TO_19
        case _:
            return ()


def _matches(pattern: _Pattern, text: str) -> Iterator[tuple[int, int]]:
    group = min(1, pattern.pattern.groups)
    for match in pattern.pattern.finditer(text):
        if pattern.check is None or pattern.check(match[group]):
            yield match.span(group)


def _cards(text: str) -> Iterator[tuple[int, int]]:
    found = [
        place
        for run in _DIGITS.finditer(text)
        for place in _cards_in(text, [*_GROUP.finditer(text, *run.span())])
    ]
    found += (match.span() for match in _PRINTED.finditer(text) if is_card("".join(_GROUP.findall(match[0]))))
    last = 0
    for start, end in sorted(found):
        if start >= last and not _in_digest(text, start, end):
            yield start, end
            last = end


def _cards_in(text: str, groups: list[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """Yield the cards among groups of digits: each begins and ends with a group."""
    if groups and text[groups[-1].end() :][:1] == "." and text[groups[-1].end() + 1 :][:1].isdigit():
        groups.pop()  # a decimal fraction
    digits = "".join(group[0] for group in groups)
    starts = [0, *accumulate(len(group[0]) for group in groups)]
    group_at = {start: number for number, start in enumerate(starts)}
    valid = None
    first = 0
    while first < len(groups):
        start = starts[first]
        for length in _card_lengths(digits[start : start + 4]):
            after = group_at.get(start + length)
            if after is None:
                continue
            valid = valid or _luhn_of_parts(digits)
            if valid(start, start + length):
                yield groups[first].start(), groups[after - 1].end()
                first = after
                break
        else:
            first += 1


def _in_digest(text: str, start: int, end: int) -> bool:
    """Return whether digits are a part of a UUID, or of a digest or id in hexadecimal."""
    before = _HEX.match(text[max(0, start - 130) : start][::-1])
    after = _HEX.match(text, end, end + 130)
    left, right = before.end() if before else 0, after.end() if after else end
    if not left and right == end:
        return False
    token = text[start - left : right]
    if any(match.start() < left + end - start and match.end() > left for match in _UUID.finditer(token)):
        return True
    first, last = token.rfind("-", 0, left) + 1, token.find("-", left + end - start)
    token = token[first : last if last >= 0 else None]
    return len(token) in _DIGEST_LENGTHS and not token.isdigit() and "-" not in token


def _ibans(text: str) -> Iterator[tuple[int, int]]:
    for match in _IBAN.finditer(text):
        whole = match[0]
        while len(whole) >= 15:
            account = whole.replace(" ", "")
            number = account[4:] + account[:4]
            if 15 <= len(account) <= 34 and int("".join(str(int(sign, 36)) for sign in number)) % 97 == 1:
                yield match.start(), match.start() + len(whole)
                break
            whole = whole.rpartition(" ")[0]  # a word in capitals after it


def _luhn(digits: str) -> bool:
    # https://en.wikipedia.org/wiki/Luhn_algorithm
    return sum(map(int, digits[-1::-2] + digits[-2::-2].translate(_DOUBLED))) % 10 == 0


def _luhn_of_parts(digits: str) -> Callable[[int, int], bool]:
    """Return a function that says whether the part from `start` to `end` has a valid check digit.

    It takes the same time for a part of any length: every group of a long list of numbers begins a few parts.
    """
    plain, doubled = ([*map(int, text)] for text in (digits, digits.translate(_DOUBLED)))
    plain[1::2], doubled[1::2] = doubled[1::2], plain[1::2]
    sums = [[*accumulate(values, initial=0)] for values in (plain, doubled)]

    def valid(start: int, end: int) -> bool:
        of_part = sums[(end - 1) % 2]  # its last digit is not doubled
        return (of_part[end] - of_part[start]) % 10 == 0

    return valid
