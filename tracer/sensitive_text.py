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

from spangrade.tracer.assigned_secrets import assigned_secrets, set_secrets


class SensitivePart(NamedTuple):
    """A sensitive part of a text: its place and its kind."""

    start: int
    end: int
    kind: str


class _Pattern(NamedTuple):
    kind: str
    marks: tuple[str, ...]  # a text without any of them has nothing for the pattern
    pattern: re.Pattern[str]  # its first group, or else the whole match, is what is sensitive
    check: Callable[[str], bool] | None = None
    long: bool = True  # what it finds has at least _LONG characters


def _basic_credentials(match: str) -> bool:
    encoded = match.rsplit(maxsplit=1)[-1]
    try:
        return b":" in base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except binascii.Error:
        return False


def _looks_random(key: str) -> bool:
    """Return whether a key is more than words with marks between them, such as a CSS class."""
    return any(letter.isdigit() for letter in key) or any(len(part) >= 16 for part in re.split("[._-]", key))


def _bearer_token(match: str) -> bool:
    token = match.rsplit(maxsplit=1)[-1]
    return len(token) >= 20 or any(letter.isdigit() for letter in token)


_SIGNS = (":", "=", "--", "%3", "('", '("', "</", "ENV ", "set ")  # between or before a key and its value
# What the keys of vendors begin with, as the vendors publish it, where that alone is distinctive.
_BEGINNINGS = (
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "glptt-", "glrt-", "glcbt-", "gldt-",
    "glft-", "glimt-", "glagent-", "glsoat-", "ATATT3", "ATCTT3", "sk-", "sk_", "pk_", "rk_", "hf_",
    "api_org_", "gsk_", "xai-", "pplx-", "nvapi-", "r8_", "lsv2_", "pylf_v1_", "pcsk_", "tvly-", "tgp_v1_",
    "csk-", "jina_", "npm_", "pypi-", "rubygems_", "CLOJARS_", "dckr_pat_", "dckr_oat_", "CCIPAT_",
    "CCIPRJ_", "bkua_", "squ_", "sqp_", "sqa_", "sgp_", "rdme_", "dop_v1_", "doo_v1_", "dor_v1_", "HRKU-",
    "nfp_", "rnd_", "sbp_", "sb_secret_", "napi_", "pscale_tkn_", "pscale_pw_", "pscale_oauth_", "fm2_",
    "hvs.", "hvb.", "dp.pt.", "dp.st.", "dp.ct.", "pul-", "tskey-", "ya29.", "GOCSPX-", "AQVN", "amzn.mws.",
    "AGE-SECRET-KEY-1", "ops_eyJ", "ntn_", "lin_api_", "lin_oauth_", "figd_", "PMAK-", "shpat_", "shpss_",
    "shpca_", "shppa_", "sq0csp-", "sq0atp-", "whsec_", "SG.", "xkeysib-", "xapp-", "CFPAT-", "tfp_",
    "fio-u-", "aio_", "dbtu_", "dbtc_", "pnu_", "pnb_", "glsa_", "glc_", "NRAK-", "NRJS-", "NRII-", "NRIQ-",
    "sntrys_", "sntryu_", "dt0c01.", "phx_",
)  # fmt: skip
_UUID_SHAPE = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Keys whose beginning is also that of words: what follows it has a fixed length and alphabet.
_SHAPES = (
    "(?:key-|fc-|SK|FLWSECK-)[0-9a-f]{32}(?![0-9A-Za-z])", "re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}",
    "e2b_[0-9a-f]{40}", "secret_[A-Za-z0-9]{43}", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", "oy2[a-z0-9]{43}",
    "cio[A-Za-z0-9]{32}", "AKCp[A-Za-z0-9]{60,}", r"EAA[A-Za-z][\w-]{50,}", "LTAI[A-Za-z0-9]{16,30}",
    "AKID[A-Za-z0-9]{32}", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}", r"sl\.[\w-]{100,}", "ATTA[A-Za-z0-9]{60,}",
    "ATBB[A-Za-z0-9]{28,}", "rzp_(?:live|test)_[A-Za-z0-9]{14}", "EZ[AT]K[A-Za-z0-9]{54}",
    "ABSK[A-Za-z0-9+/]{100,}=*",
    f"(?:sdk|access-production|access-development|pat-(?:na|eu)[0-9])-{_UUID_SHAPE}",
    "A3-[A-Z0-9]{6}-(?:[A-Z0-9]{6}-[A-Z0-9]{5}|[A-Z0-9]{11})(?:-[A-Z0-9]{5}){3}",  # 1Password's secret key
    r"[MNO][A-Za-z0-9_-]{23,25}\.[\w-]{6}\.[\w-]{27,38}",  # a bot of Discord
)  # fmt: skip


def _any_of(words: Iterable[str]) -> str:
    """Return a regular expression of all the words that reads each letter once: as fast as a few of them."""
    by_first: dict[str, list[str]] = {}
    for word in words:
        if not word:
            return ""  # the others are longer
        by_first.setdefault(word[0], []).append(word[1:])
    return f"(?:{'|'.join(re.escape(first) + _any_of(rest) for first, rest in by_first.items())})"


# The user and password of a URL: the password alone goes.
_USER_INFO = _Pattern("key", ("@",), re.compile(r"(?<=://)[^\s/:@?\"'<>\\]{0,128}+:([^\s/?\"'<>\\]+)@"), None)
_PATTERNS = (
    _Pattern(
        "key",
        ("-----BEGIN",),
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    ),
    # A JSON web token, a key of Grafana, a token of Mapbox.
    _Pattern(
        "key",
        ("eyJ",),
        re.compile(
            r"(?<![\w-])(?:eyJ[\w-]{5,}+\.[\w-]{5,}+\.[\w-]*+|eyJrIjoi[\w+/]{40,}+={0,2}+"
            r"|sk\.eyJ[\w-]{20,}+\.[\w-]{20,}+)"
        ),
    ),
    _Pattern(
        "key",
        ("earer", "EARER"),
        re.compile(r"(?i:\bbearer)[\s:=]{1,9}[\w.~+/-]{8,}+=*+"),
        _bearer_token,
        long=False,
    ),
    _Pattern(
        "key",
        ("asic ", "ASIC "),
        re.compile(r"(?i:\bbasic) {1,9}[\w+/-]{8,}+={0,2}+"),
        _basic_credentials,
        long=False,
    ),
    # Read in every text: a mark for each beginning costs more than one search for all of them.
    _Pattern(
        "key",
        ("",),
        re.compile(
            rf"(?<![A-Za-z0-9])(?=[\w.-]{{17}})(?:{_any_of(_BEGINNINGS)}[\w.+/-]{{15,}}(?<=[\w-])=*+|{'|'.join(_SHAPES)})",
            re.ASCII,
        ),
        _looks_random,
    ),
    # The signature of a URL that opens an object for anybody: S3, CloudFront, Google Cloud Storage, Azure.
    _Pattern(
        "key",
        ("ignature=", "sig="),
        re.compile(r"[?&](?:X-Amz-Signature|X-Goog-Signature|Signature|sig)=([\w%+/=~-]{20,}+)"),
    ),
    _Pattern("key", (":AA",), re.compile(r"(?<!\d)\d{8,10}:AA[\w-]{33}(?![\w-])")),  # a bot of Telegram
    _Pattern("key", (".atlasv1.",), re.compile(r"(?<!\w)\w{14}\.atlasv1\.[\w-]{40,}+")),  # Terraform
    # An application of Entra ID.
    _Pattern("key", ("Q~",), re.compile(r"(?<![\w.~-])[\w.~]{3}\dQ~[\w.~-]{31,34}")),
    _Pattern("key", ("-us",), re.compile(r"(?<!\w)[0-9a-f]{32}-us[0-9]{1,2}(?!\w)")),  # Mailchimp
    _Pattern("key", ("NRAL",), re.compile(r"(?<!\w)[0-9a-f]{36}NRAL(?!\w)")),  # New Relic
    _Pattern("key", ("sha256~",), re.compile(r"(?<!\w)sha256~[\w-]{43}")),  # OpenShift
    _Pattern("key", ("1//0",), re.compile(r"(?<![\w/])1//0[\w-]{40,}+")),  # a refresh token of Google
    # Braintree.
    _Pattern("key", ("$production$",), re.compile(r"access_token\$production\$\w{16}\$[0-9a-f]{32}")),
    _Pattern("key", ("!AQ",), re.compile(r"(?<!\w)00D\w{12,15}!AQ[\w.-]{60,}+")),  # a session of Salesforce
    _Pattern("key", ("AIza",), re.compile(r"AIza[\w-]{30,}+")),
    _Pattern("key", ("xox",), re.compile(r"(?<![A-Za-z0-9])xox[a-z]-[\w-]{10,}+")),
    _Pattern("key", ("AKIA", "ASIA"), re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])")),
    _Pattern("key", ("dapi",), re.compile(r"(?<![A-Za-z0-9])dapi[0-9a-f]{32}(?![0-9a-f])")),
    _Pattern(
        "key",
        ("hooks.slack.com/",),
        re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/]+)"),
    ),
    _Pattern("key", ("/api/webhooks/",), re.compile(r"/api/webhooks/\d{16,20}/([\w-]{60,}+)")),  # Discord
    _Pattern(
        "key", ("webhook.office.com/",), re.compile(r"webhook\.office\.com/webhookb2/([\w@/-]+)")
    ),  # Teams
    # Passwords of database clients and the like on a command line, of .netrc and of .pgpass.
    _Pattern(
        "key",
        (" -p", " -a "),
        re.compile(
            r"(?<![\w./-])(?:(?:mysql|mariadb)[a-z_-]{0,20}\b(?:[^\n|;&]{0,200}?[^\n|;&])?? -p(?=\S{3})"
            r"|sshpass -p ?|docker login\b[^\n|;&]{0,200}? -p |redis-cli\b[^\n|;&]{0,200}? -a )"
            r"([^\s\"'\\-][^\s\"'\\]*)"
        ),
        long=False,
    ),
    _Pattern(
        "key", (" login ",), re.compile(r"\bmachine [\w-]+\.[\w.-]+ login \S{1,128} password ([^\s\"'\\]+)")
    ),
    _Pattern("key", (":5432:",), re.compile(r":5432:[^\s:]{1,64}:[^\s:]{1,64}:([^\s:\"'\\]{4,})")),
    _Pattern(
        "email",
        ("@", "%40"),
        # The part before the "@" is read whole from its beginning, for the search to stay linear.
        re.compile(
            r"(?<![\w.+'-])['.-]*+(?!git@)([\w+][\w.+'-]*+(?:@|%40)[\w-]+(?:\.[\w-]+)*\.(?=[\w-]*[^\W\d_])[^\W_][\w-]+)"
        ),
        long=False,
    ),
    # user:password@host without a scheme. A host is neither a version nor a digest, as in image:1.0@sha256:…
    _Pattern(
        "key",
        ("@",),
        re.compile(
            r"(?<=\w:)([^\s/:@,;\"'<>\\\0]{3,128}+)@(?!sha\d|v?\d+(?:\.\d+){0,2}(?![.\d]))(?=[A-Za-z0-9])"
        ),
        long=False,
    ),
    # curl -u user:password
    _Pattern(
        "key",
        ("-u ", "--user "),
        re.compile(r"(?<!\S)(?:-u|--user) {1,3}[\"']?[^\s:\"'\\]{1,64}+:(?!\d+(?!\S))([^\s\"'\\]+)"),
        long=False,
    ),
    _Pattern(
        "phone",
        ("+", "%2B"),
        re.compile(r"(?<![\w.])(?:\+|%2B)\d(?:[ ().\-/]{0,2}\d){6,14}(?!\d)"),
        long=False,
    ),
)
_LONG = 14  # characters
_IN_SHORT_TEXT = tuple(pattern for pattern in _PATTERNS if not pattern.long)
_SHORTEST_NUMBER = len("123-45-6789")
# A phone number of North America, or a social security number of the United States. The first digit stands
# before what must not precede it: the search for it is five times as fast then.
_GROUPED = re.compile(
    r"[0-9(](?<![\w.+-][0-9(])(?:"
    r"(?P<phone>(?:(?<=1)[ .-]\(?[0-9]{3}\)?|(?<=\()[0-9]{3}\)|(?<=[0-9])[0-9]{2})"
    r"[ .-]?[0-9]{3}[ .-][0-9]{4}(?![\d-]))"
    r"|(?P<ssn>(?<=[0-8])(?!00-|(?<=6)66-)[0-9]{2}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![\w-])))"
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
# From its first digit: two letters and two digits begin it.
_IBAN = re.compile(
    r"[0-9](?<=[A-Za-z]{2}[0-9])(?<![A-Za-z0-9][A-Za-z]{2}[0-9])[0-9]"
    r"(?:(?<=[A-Z]{2}[0-9]{2})(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?"
    r"|(?<=[a-z]{2}[0-9]{2})(?: ?[a-z0-9]{4}){2,7}(?: ?[a-z0-9]{1,3})?)(?![A-Za-z0-9])"
)
# Other ids look like accounts in small letters, so these must have the length of their country (ISO 13616).
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "no", 16: "be", 18: "dk fi fk fo gl nl sd", 19: "mk si", 20: "at ba ee kz lt lu mn xk",
        21: "ch hr li lv", 22: "bg bh cr de gb ge ie me rs va", 23: "ae gi il iq om so tl",
        24: "ad cz es md pk ro sa se sk tn vg", 25: "ly pt st", 26: "is tr", 27: "bi dj fr gr it mc mr sm",
        28: "al az by cy do gt hn hu lb ni pl sv", 29: "br eg ps qa ua", 30: "jo kw mu ye", 31: "mt sc",
        32: "lc", 33: "ru",
    }.items()
    for country in countries.split()
}  # fmt: skip


def findings(text: str, secret_key: Callable[[str], bool], key_words: Sequence[str]) -> list[SensitivePart]:
    """Return the sensitive parts of a text, in order and without overlaps.

    The text is one that `fold` returned. `secret_key` says whether a key's value is a secret; every such key
    contains one of `key_words`.
    """
    found: list[SensitivePart] = []

    def without(kind: str, places: Iterable[tuple[int, int]], text: str) -> str:
        pieces: list[str] = []
        last = 0
        for start, end in places:
            found.append(SensitivePart(start, end, kind))
            pieces += (text[last:start], "\0" * (end - start))  # in its place, to not be found twice
            last = end
        return "".join((*pieces, text[last:])) if pieces else text

    if "@" in text and "://" in text:
        text = without(_USER_INFO.kind, _matches(_USER_INFO, text), text)
    if any(sign in text for sign in _SIGNS):
        lower = text.lower()
        if any(word in lower for word in key_words):
            text = without("redacted", assigned_secrets(text, secret_key), text)
            text = without("redacted", set_secrets(text, secret_key), text)
    for pattern in _PATTERNS if len(text) >= _LONG else _IN_SHORT_TEXT:
        for mark in pattern.marks:
            if mark in text:
                text = without(pattern.kind, _matches(pattern, text), text)
                break
    if len(text) >= _SHORTEST_NUMBER:
        text = without("card", _cards(text), text)
        text = without("iban", _ibans(text), text)
        found += (SensitivePart(*match.span(), match.lastgroup or "") for match in _GROUPED.finditer(text))
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
        start = match.start() - 2
        whole = text[start : match.end()]
        while len(whole) >= 15:
            account = whole.replace(" ", "")
            number = account[4:] + account[:4]
            possible = account[0].isupper() or len(account) == _IBAN_LENGTHS.get(account[:2])
            if (
                possible
                and len(account) <= 34
                and int("".join(str(int(sign, 36)) for sign in number)) % 97 == 1
            ):
                yield start, start + len(whole)
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
