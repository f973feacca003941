"""A corpus of made text from agent traffic, to measure what redaction finds and what it spares.

Every line is a sentence, a URL, a log line, code or a piece of JSON as agents write them, with slots. A
slot is filled from a seeded generator: cards and IBANs get valid check digits, keys the prefix and alphabet
of their vendor and random characters. No value belongs to anybody, none was copied from anywhere, and this
file contains no secret: prefixes are put together when the corpus is made.
"""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple

ALPHANUMERIC = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"

Maker = Callable[[random.Random], str]


class Line(NamedTuple):
    """A text, the parts of it that must not be stored (in order), and what kind of line it is."""

    kind: str
    text: str
    secrets: tuple[str, ...] = ()


def _some(r: random.Random, alphabet: str, length: int) -> str:
    return "".join(r.choices(alphabet, k=length))


def _word(r: random.Random) -> str:
    return r.choice(["anna", "bruno", "chen", "dilek", "emeka", "farid", "greta", "hiro", "ines", "jonas"])


def email(r: random.Random) -> str:
    """Return an address in a domain that is reserved for examples."""
    local = r.choice([f"{_word(r)}.{_word(r)}", f"{_word(r)}{r.randrange(99)}", f"{_word(r)}+shop", "o'neil"])
    return f"{local}@{r.choice(['example.com', 'mail.example.org', 'shop.example.co.uk'])}"


def check_digit(digits: str) -> str:
    """Return digits with the Luhn check digit after them."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (2 if place % 2 == 0 else 1)
        total += doubled - 9 if doubled > 9 else doubled
    return digits + str(-total % 10)


def card_digits(r: random.Random) -> str:
    """Return the number of a card, of 16 or (American Express) 15 digits, without gaps."""
    prefix, length = r.choice([("4", 16), ("51", 16), ("2221", 16), ("6011", 16), ("37", 15)])
    return check_digit(prefix + _some(r, string.digits, length - len(prefix) - 1))


def card(r: random.Random) -> str:
    """Return a card's number as people write it."""
    digits = card_digits(r)
    gap = r.choice(["", " ", "-"])
    cuts = (4, 10) if len(digits) == 15 else (4, 8, 12)
    return gap.join(digits[a:b] for a, b in zip((0, *cuts), (*cuts, None), strict=True))


def card_with_dots(r: random.Random) -> str:
    """Return a card's number with dots between its groups."""
    digits = card_digits(r)
    cuts = (4, 10) if len(digits) == 15 else (4, 8, 12)
    return ".".join(digits[a:b] for a, b in zip((0, *cuts), (*cuts, None), strict=True))


def iban(r: random.Random) -> str:
    """Return an account number with valid check digits, in one piece or in groups of four."""
    country, length = r.choice([("DE", 22), ("FR", 27), ("GB", 22), ("NL", 18), ("ES", 24), ("CH", 21)])
    account = _some(r, string.digits, length - 4)
    if country in {"GB", "NL"}:
        account = _some(r, string.ascii_uppercase, 4) + account[4:]
    number = int("".join(str(int(letter, 36)) for letter in account + country + "00"))
    whole = f"{country}{98 - number % 97:02}{account}"
    return r.choice([whole, " ".join(whole[at : at + 4] for at in range(0, length, 4))])


def phone(r: random.Random) -> str:
    """Return a number with its country code, or in the groups of North America."""
    n = _some(r, "123456789", 10)
    return r.choice(
        [
            f"+49 30 {n[:8]}",
            f"+44 20 {n[:4]} {n[4:8]}",
            f"+1 ({n[:3]}) {n[3:6]}-{n[6:]}",
            f"({n[:3]}) {n[3:6]}-{n[6:]}",
            f"{n[:3]}-{n[3:6]}-{n[6:]}",
            f"{n[:3]}.{n[3:6]}.{n[6:]}",
            f"+33{n[:9]}",
        ]
    )


_VENDORS = (  # the beginning, in parts, and how many characters of which alphabet follow it
    (("s", "k-proj-"), ALPHANUMERIC, 48),
    (("s", "k-ant-api03-"), ALPHANUMERIC, 60),
    (("s", "k_live_"), ALPHANUMERIC, 24),
    (("AI", "za"), ALPHANUMERIC + "_-", 35),
    (("gh", "p_"), ALPHANUMERIC, 36),
    (("github", "_pat_"), ALPHANUMERIC, 50),
    (("gl", "pat-"), ALPHANUMERIC, 20),
    (("h", "f_"), string.ascii_letters, 34),
    (("xo", "xb-"), string.digits, 24),
    (("AK", "IA"), string.ascii_uppercase + string.digits, 16),
    (("ya", "29."), ALPHANUMERIC + "_-", 60),
    (("GOC", "SPX-"), ALPHANUMERIC, 28),
    (("np", "m_"), ALPHANUMERIC, 36),
    (("pyp", "i-AgEIcHlwaS5vcmc"), ALPHANUMERIC, 60),
    (("gs", "k_"), ALPHANUMERIC, 52),
    (("lsv2", "_pt_"), HEX, 32),
    (("d", "op_v1_"), HEX, 64),
    (("sh", "pat_"), HEX, 32),
    (("da", "pi"), HEX, 32),
    (("wh", "sec_"), ALPHANUMERIC, 32),
)


def vendor_key(r: random.Random) -> str:
    """Return a key in the shape of a known vendor's."""
    parts, alphabet, length = r.choice(_VENDORS)
    return "".join(parts) + _some(r, alphabet, length)


def jwt(r: random.Random) -> str:
    """Return a JSON web token with a random signature."""

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    header, claims = {"alg": "HS256", "typ": "JWT"}, {"sub": _some(r, string.digits, 8), "admin": False}
    return f"{part(header)}.{part(claims)}.{_some(r, ALPHANUMERIC + '_-', 43)}"


def password(r: random.Random) -> str:
    """Return a password of letters and digits, with a symbol in every other."""
    return _some(r, string.ascii_letters, 5) + r.choice(["!", "", "#", "-"]) + _some(r, string.digits, 4)


def basic(r: random.Random) -> str:
    """Return user and password as HTTP's Basic scheme writes them."""
    return base64.b64encode(f"{_word(r)}:{password(r)}".encode()).decode()


def opaque(r: random.Random) -> str:
    """Return a token that no vendor's prefix marks."""
    return _some(r, LOWER, 28)


def private_key(r: random.Random) -> str:
    """Return what looks like a key file; the key in it is noise."""
    lines = "\n".join(_some(r, ALPHANUMERIC + "+/", 64) for _ in range(3))
    return f"-----BEGIN {'PRIVATE'} KEY-----\n{lines}\n-----END {'PRIVATE'} KEY-----"


def wide(text: str) -> str:
    """Return text in the full-width forms of East Asian fonts."""
    return "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in text)


def _disguised(maker: Maker, disguise: Callable[[str, random.Random], str]) -> Maker:
    return lambda r: disguise(maker(r), r)


def _with_zero_widths(text: str, r: random.Random) -> str:
    return "".join(letter + r.choice(["", "\u200b", "\u2060", "\u00ad"]) for letter in text[:-1]) + text[-1]


def _in_arabic_digits(text: str, r: random.Random) -> str:
    zero = r.choice([0x660, 0x6F0, 0x966])
    return "".join(chr(zero + int(letter)) if letter.isdigit() else letter for letter in text)


# What is looked for: how many lines of each template, the value's maker, and the templates ("§" is the slot).
_SECRET: dict[str, tuple[int, Maker, tuple[str, ...]]] = {
    "e-mail address": (
        3,
        email,
        (
            "My address is §, please send the invoice there.",
            "Contact: §",
            '{"customer": {"email": "§", "vip": true}}',
            "To: <§>; subject: your order",
            "mailto:§?subject=hi",
            "[2026-11-21 10:00:01] INFO sent reset link to §",
            "User § not found in CRM (404)",
        ),
    ),
    "phone number": (
        3,
        phone,
        (
            "Call me back at § after 5 pm.",
            '{"phone": "§"}',
            "Tel.: §, Fax: none",
            "The customer's number is §.",
            "sms sent to § (2 parts)",
        ),
    ),
    "card number": (
        3,
        card,
        (
            "Charge § please.",
            '{"payment": {"number": "§", "exp": "11/29"}}',
            "card=§&exp=1129",
            "The card § was declined: insufficient funds.",
            "Card on file: §, expires 09/28",
        ),
    ),
    "card number with dots": (3, card_with_dots, ("Use § instead.", '{"note": "paid with §"}', "§")),
    "IBAN": (
        3,
        iban,
        ("Refund to § within 5 days.", '{"iban_of_payer": "§"}', "Konto: §", "account § (checked)"),
    ),
    "vendor's key": (
        10,
        vendor_key,
        (
            "export KEY=§",
            "I used § to call the API and got 401.",
            '{"config": ["--key", "§"]}',
            "Incorrect API key provided: §.",
            "curl -H 'X-Thing: §' https://api.example.com/v1",
        ),
    ),
    "web token": (
        3,
        jwt,
        ("id=§", '{"claims_of": "§"}', "The token § has expired.", "Cookie-like §; path=/"),
    ),
    "private key": (3, private_key, ("§", "Here is the file:\n§\nthanks")),
    "bearer token": (
        3,
        opaque,
        ("Authorization: Bearer §", "bearer § was rejected", "-H 'authorization: Bearer §'"),
    ),
    "Basic credentials": (3, basic, ("Authorization: Basic §", "sent Basic § and got 403", "'Basic §'")),
    "password in a URL": (
        4,
        password,
        (
            "https://example.com/login?user=ines&password=§&next=/",
            "GET /auth?pwd=§ HTTP/1.1",
            "https://api.example.com/v1/items?api_key=§",
            "https://example.com/cb#access_token=§&expires_in=3600",
        ),
    ),
    "user and password before a host": (
        4,
        password,
        (
            "postgres://app:§@db.internal:5432/shop",
            "redis://:§@cache.example.com/0",
            "cloned https://ci:§@git.example.com/team/repo.git",
            "ssh deploy:§@build-host",
            "mongodb+srv://root:§@cluster0.example.net/?w=majority",
        ),
    ),
    "assignment in text": (
        3,
        password,
        (
            "DB_PASSWORD=§",
            "password: §",
            "SMTP_PASS=§ SMTP_HOST=mail",
            "set session_token = '§' first",
            "user.pass=§",
            "secret_key: §",
            'client_secret = "§"',
            "Your new password is: §",
        ),
    ),
    "other spellings of an assignment": (
        2,
        password,
        (
            "password = '§'",
            "password => '§'",
            "{password: '§', user: 'ines'}",
            "mysql --user ines --password § shop",
            "PGPASSWORD=§ psql -h db",
            "<password>§</password>",
            "('password', '§')",
            "curl -u ines:§ https://api.example.com",
            "X-Amz-Security-Token: §",
            'headers["Authorization"] = "§"',
            "password:\n  §",
            "ENV DB_PASSWORD §",
            "passwort: §",
            "login ines/§",
        ),
    ),
    "key of JSON": (
        2,
        opaque,
        (
            '{"api.key": "§", "region": "eu"}',
            '{"auth": {"session_token": "§"}}',
            '{"csrf_token": "§"}',
            '{"bearerToken": "§", "ok": true}',
            '{"pwd": "§"}',
            '{"user.pass": "§", "user.name": "ines"}',
            '{"X-API-Key": "§"}',
            '{"refreshToken": "§"}',
            '[{"name": "password", "value": "§"}, {"name": "city", "value": "Bonn"}]',
            '{"headers": [{"key": "Authorization", "value": "§"}]}',
            '{"headers": [["authorization", "§"], ["accept", "*/*"]]}',
        ),
    ),
    "Python's dictionaries": (
        3,
        password,
        (
            "{'password': '§', 'user': 'ines'}",
            "called login(**{'user': 'ines', 'pwd': '§'}) in 3 ms",
            "Response(status=200, body={'token': '§'})",
            "{'headers': {'X-Api-Key': b'§'}}",
            "[{'name': 'password', 'value': '§'}]",
            "{'access_token': \"§\", 'expires_in': 3600}",
        ),
    ),
    "JSON behind a prefix": (
        3,
        password,
        (
            'Response: {"token": "§"}',
            'Tool returned: {"user": "ines", "password": "§"} in 20 ms',
            '200 OK {"data": {"api_key": "§", "id": 7}}',
            'data: {"delta": {"client_secret": "§"}}',
            'payload={\\"password\\": \\"§\\", \\"user\\": \\"ines\\"}',
            'fields [{"name": "password", "value": "§"}] were sent',
        ),
    ),
    "zero-width characters": (
        3,
        _disguised(email, _with_zero_widths),
        ("Write to § today.", '{"to": "§"}'),
    ),
    "zero-width characters in a card": (
        3,
        _disguised(card_digits, _with_zero_widths),
        ("Charge § today.", '{"note": "§"}'),
    ),
    "full-width letters": (
        3,
        _disguised(email, lambda text, r: wide(text)),
        ("連絡先は § です", "Write to § today."),
    ),
    "full-width digits": (
        3,
        _disguised(card, lambda text, r: wide(text)),
        ("カード § 、期限", "Charge § today."),
    ),
    "digits of other scripts": (
        4,
        _disguised(card, _in_arabic_digits),
        ("البطاقة § صالحة", "Charge § today."),
    ),
    "phone in digits of other scripts": (
        4,
        _disguised(lambda r: f"+966 5{_some(r, '123456789', 8)}", _in_arabic_digits),
        ("اتصل على § غدا", "Call § today."),
    ),
}

# What the documentation says is not found: measured too, for the figure to be known.
_UNCLAIMED: dict[str, tuple[int, Maker, tuple[str, ...]]] = {
    "names and postal addresses": (
        2,
        lambda r: f"{_word(r).title()} Muster, {r.randrange(1, 99)} Market Street",
        ("Deliver to § please.", '{"ship_to": "§"}'),
    ),
    "bare national phone numbers": (
        2,
        lambda r: "030" + _some(r, "123456789", 8),
        ("Call § today.", "tel §"),
    ),
    "spelled out": (
        2,
        lambda r: email(r).replace("@", " at ").replace(".", " dot "),
        ("It is §.", "write to § today"),
    ),
    "base64": (
        2,
        lambda r: base64.b64encode(f"please write to {email(r)}".encode()).decode(),
        ("attachment: §", '{"blob": "§"}'),
    ),
    "letters of other alphabets": (
        2,
        lambda r: email(r).replace("@", "@").replace("a", "а").replace(".com", ".соm").replace("@", " @ "),
        ("Write to § today.",),
    ),
    "password in prose": (2, password, ("my password is § and I like it", "use § to log in")),
}

# What must stay as it is. "{…}" are filled from a seeded generator as well.
_HARMLESS: dict[str, tuple[str, ...]] = {
    "order numbers and ids": (
        "Where is order {digits10}?",
        "Order ORD-{digits8}-{digits4} has shipped.",
        '{{"order_id": "{digits12}", "qty": 2}}',
        "call_{alnum24}",
        "toolu_{alnum24}",
        "chatcmpl-{alnum29}",
        "SKU {digits4}-{digits4}-{digits4}",
        "tracking 1Z{digits8}{digits8} is in transit",
        "invoice #{digits8}, customer {digits5}",
        "ISBN 978-3-16-148410-0",
    ),
    "UUIDs": (
        "{uuid}",
        '{{"session": "{uuid}", "n": 1}}',
        "agent:{uuid}|tools:{uuid}",
        "request {uuid} took 3.2 s",
    ),
    "timestamps": (
        "2026-11-21T{hour}:{minute}:01.{digits9}Z",
        "at {epoch_ns} ns",
        '{{"created": {epoch_s}, "ended_ms": {epoch_ms}}}',
        "2026-11-21 {hour}:{minute}:{minute} +0100",
        "20261121{hour}{minute}{minute}",
    ),
    "prices and figures": (
        "Total: EUR 1,{digits3}.99 (incl. 19% VAT)",
        "0.{digits16}",
        "-12.{digits16} and 3.{digits15}",
        "latency p99 {digits4}.{digits6} ms",
        "[{digits3}.{digits4}, 4{digits3}.{digits4}, {digits3}.{digits4}]",
        "lat 52.{digits6}, lon 13.{digits6}",
        "1,{digits3},{digits3},{digits3} rows",
        "+{digits3} points, +1.5 %",
    ),
    "versions": (
        "python 3.11.{digit}, duckdb 1.5.{digit}",
        "npm i left-pad@1.{digit}.{digit}",
        "image registry.example.com/shop:1.{digit}@sha256:{hex64}",
        "actions/checkout@v4",
        "v1.2.3 of 100.200.300",
        "10.{digit}.0.{digit}:8080",
    ),
    "trace ids and digests": (
        "trace {hex32} span {hex16}",
        "00-{hex32}-{hex16}-01",
        "commit {hex40}",
        "sha256:{hex64}",
        'etag "{hex32}"',
        '{{"traceId": "{hex32}", "spanId": "{hex16}"}}',
    ),
    "usage of tokens": (
        '{{"max_tokens": {digits4}, "input_tokens": {digits3}, "output_tokens": {digits3}}}',
        "usage: prompt_tokens={digits4}, completion_tokens={digits3}, total_tokens={digits4}",
        "Total tokens: {digits4}; cost per token: 0.000{digits3}",
        '{{"gen_ai.usage.input_tokens": {digits4}, "next_page_token": null}}',
        '{{"time_to_first_token": 0.{digits3}, "eos_token": "</s>"}}',
        "Usage(input_tokens={digits3}, cached_tokens=0, details={{'reasoning_tokens': {digits3}}})",
        "The token limit is {digits5} tokens.",
    ),
    "words around secrets": (
        "I forgot my password, can you help me?",
        "Password: must be at least 8 characters long",
        "To reset your password, open Settings > Security.",
        "The secret is to keep the dough cold.",
        "Cookies are baked at 180 degrees.",
        "The bearer certificates were authorized by the board.",
        "Basic information about the basic plan",
        "Please pass the salt; 12 tests pass, 3 fail.",
        '{{"pass": true, "passed": 12, "pass_rate": 0.9}}',
        '{{"required": ["email", "password"], "type": "object"}}',
        '{{"primary_key": "id", "cache_key": "v1", "key": "value"}}',
        "Authorization is required for this action",
        "the keys are on the table: take one",
        "Token: a piece of a word. Secret: none.",
        "Keys: use the arrow keys. Passwords: never share them.",
        "password reset: done; cookie banner: shown; 2FA token: sent",
        "Q: What is a bearer token? A: A token that whoever bears it may use.",
        "I was charged 3 times: 12.50, 12.50 and 12.50",
        "Your one-time password was sent: check your phone",
        '{{"secretary": "n/a", "passenger": "adult", "compass": "N"}}',
    ),
    "code": (
        "def login(user: str, password: str) -> Token:",
        "password = os.environ['DB_PASSWORD']",
        "token=token, password=password)",
        "client = Client(api_key=get_key(), token=None)",
        "if password is None: raise ValueError('password is missing')",
        "@app.route('/login') def login(): pass",
        "export TOKEN=$GITHUB_TOKEN",
        "api_key: ${{API_KEY}}",
        "SELECT count(*) FROM users WHERE email LIKE '%@%'",
        "a = b @ c  # matrix product",
        "git clone git@github.com:example/shop.git",
        "x = [1, 2, 3]; y = x[0] + 1234567 * 10",
        "sk-8 and gh_x are no keys, nor is sk-fading-circle-container-large",
        "token = next(tokens); tokens.append(token)",
        "class Login(BaseModel): password: SecretStr; token: Token | None",
        "assert response.json()['token'] == expected_token",
        "for key, value in headers.items(): cookies[key] = value",
        "self.password = password; self.api_key = api_key or os.getenv('API_KEY')",
        "const token = await getToken(); localStorage.setItem('token', token);",
        'raise ValueError(f"unknown key: {{key}}")',
        "kubectl get secrets --namespace shop --output wide",
        "if token.type == 'NUMBER': tokens += 1",
        '{{"type": "string", "format": "password", "title": "Password", "description": "The password"}}',
        '{{"properties": {{"city": {{"type": "string"}}, "token_count": {{"type": "integer"}}}}}}',
    ),
    "URLs and paths": (
        "https://example.com/orders/{digits10}?page=2&sort=asc",
        "https://example.com/@handle/posts/{digits8}",
        "/var/log/agent/2026-11-21/{digits6}.log",
        "http://localhost:8080/v1/sessions/{uuid}",
        "https://example.com/reset?next=/password/new",
        "see http://example.com:80/a:b@c for more",
    ),
    "other scripts": (
        "注文番号は{digits8}です。ありがとうございます！",
        "（価格：１２８０円）",
        "السعر ٤٩٫٩٩ ريال",
        "Größe: 42½, Preis: 12,99 €",
        "Заказ №{digits8} отправлен",
        "family: \U0001f468\u200d\U0001f469\u200d\U0001f467, done",
    ),
}
_REPEATS = 4


def secrets_lines(seed: int = 2026) -> Iterator[Line]:
    """Yield the lines with what redaction looks for."""
    yield from _lines(_SECRET, seed)


def unclaimed_lines(seed: int = 2026) -> Iterator[Line]:
    """Yield the lines with what redaction does not look for, as the documentation says."""
    yield from _lines(_UNCLAIMED, seed)


def _lines(table: dict[str, tuple[int, Maker, tuple[str, ...]]], seed: int) -> Iterator[Line]:
    for kind, (repeats, make, templates) in table.items():
        r = random.Random(f"{seed} {kind}")
        for template in templates:
            for _ in range(repeats):
                value = make(r)
                shown = json.dumps(value)[1:-1] if template.lstrip().startswith(("{", "[")) else value
                yield Line(kind, template.replace("§", shown), (value,))


def harmless_lines(seed: int = 2026) -> Iterator[Line]:
    """Yield the lines that only look like it; a template without a slot gives one line."""
    for kind, templates in _HARMLESS.items():
        r = random.Random(f"{seed} {kind}")
        for template in templates:
            lines = {template.format_map(_Filler(r)) for _ in range(_REPEATS)}
            yield from (Line(kind, text) for text in sorted(lines))


class _Filler(dict[str, str]):
    """Values for the slots of harmless templates; each look-up is a new one."""

    def __init__(self, r: random.Random) -> None:
        super().__init__()
        self._r = r

    def __missing__(self, slot: str) -> str:
        r = self._r
        name, length = slot.rstrip(string.digits), slot[len(slot.rstrip(string.digits)) :]
        match name:
            case "digit":
                return r.choice(string.digits)
            case "digits":
                return r.choice("123456789") + _some(r, string.digits, int(length) - 1)
            case "alnum":
                return _some(r, ALPHANUMERIC, int(length))
            case "hex":
                return _some(r, HEX, int(length))
            case "uuid":
                return str(uuid.UUID(int=r.getrandbits(128), version=4))
            case "hour" | "minute":
                return f"{r.randrange(24):02}"
            case "epoch_s":
                return str(1_780_000_000 + r.randrange(10**7))
            case "epoch_ms":
                return str(1_780_000_000_000 + r.randrange(10**10))
            case "epoch_ns":
                return str(1_780_000_000_000_000_000 + r.randrange(10**16))
        raise KeyError(slot)
