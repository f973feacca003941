"""Secrets in the shapes that their vendors and standards publish, and text that looks like them.

Written from the published formats, apart from the rules of redaction. A shape is a text with slots:
`{36:A}` is 36 random characters of the alphabet A. What stands between « and » must not be stored; of a
shape without these marks nothing must be, and a sentence is put around it. `¦` is left out when a text is
made: it keeps this file free of the beginnings that scanners look for. No value belongs to anybody.
"""

from __future__ import annotations

import random
import re
import string
import uuid
from collections.abc import Iterator

from corpus import ALPHANUMERIC, HEX, LOWER, Line

_ALPHABETS = {
    "A": ALPHANUMERIC,
    "a": LOWER,
    "U": string.ascii_uppercase + string.digits,
    "L": string.ascii_letters,
    "x": HEX,
    "X": HEX.upper(),
    "d": string.digits,
    "n": "123456789",
    "_": ALPHANUMERIC + "_-",
    "/": ALPHANUMERIC + "+/",
    "2": string.ascii_uppercase + "234567",
}
_SENTENCES = (
    "I used § and got 401.",
    "export KEY=§",
    '{"config": ["--key", "§"]}',
    "the key is §",
    "curl -H 'X-Thing: §' https://api.example.com/v1",
    "[2026-11-21 10:00:01] WARN rejected §",
)

MODELS = (
    "s¦k-proj-{74:_}T3BlbkFJ{74:_}", "s¦k-svcacct-{60:_}T3BlbkFJ{60:_}", "s¦k-admin-{58:_}T3BlbkFJ{58:_}",
    "s¦k-{20:A}T3BlbkFJ{20:A}", "s¦k-ant-api03-{93:_}AA", "s¦k-ant-admin01-{93:_}AA",
    "s¦k-ant-oat01-{93:_}AA", "s¦k-or-v1-{64:x}", "AI¦za{35:_}", "h¦f_{34:L}", "api¦_org_{34:L}",
    "g¦sk_{52:A}", "x¦ai-{80:A}", "p¦plx-{48:A}", "nv¦api-{64:_}", "r¦8_{37:A}", "pc¦sk_{6:A}_{63:A}",
    "tv¦ly-dev-{32:A}", "tg¦p_v1_{43:_}", "cs¦k-{48:a}", "ji¦na_{60:A}", "fc¦-{32:x}", "e2¦b_{40:x}",
    "s¦k-lf-{1:uuid}", "ls¦v2_pt_{32:x}_{10:x}", "py¦lf_v1_us_{43:A}", "AB¦SK{109:/}=",
)  # fmt: skip
CLOUDS = (
    "AK¦IA{16:2}", "AS¦IA{16:2}", "aws_secret_access_key = «{40:/}»", "amzn¦.mws.{1:uuid}", "ya¦29.{100:_}",
    "GOC¦SPX-{28:_}", "1¦//0{2:d}{60:_}",
    ("DefaultEndpointsProtocol=https;AccountName=shop;Account¦Key=«{86:/}==»;EndpointS"
     "uffix=core.windows.net"),
    "Endpoint=sb://shop.servicebus.windows.net/;SharedAccess¦Key=«{43:/}=»", "{3:A}8¦Q~{34:_}",
    "LT¦AI{20:A}", "AK¦ID{32:A}", "AQ¦VN{35:_}", "do¦p_v1_{64:x}", "do¦o_v1_{64:x}", "do¦r_v1_{64:x}",
    "v1.0¦-{24:x}-{146:x}", "HR¦KU-AA{58:_}", "hero¦ku_api_key: «{1:uuid}»", "FlyV1 f¦m2_{80:/}",
    "nf¦p_{40:A}", "rn¦d_{32:A}", "sb¦p_{40:x}", "sb_¦secret_{31:_}", "nap¦i_{64:a}", "pscale_¦tkn_{43:_}",
    "pscale_¦pw_{43:_}", "dap¦i{32:x}", "dap¦i{32:x}-2", "{14:A}.atlas¦v1.{67:_}", "hv¦s.{90:_}",
    "hv¦b.{138:_}", "d¦p.pt.{43:A}", "pu¦l-{40:x}", "sha¦256~{43:_}", "ts¦key-auth-{17:A}-{32:A}",
    "-----BEGIN ¦OPENSSH PRIVATE KEY-----\n{70:/}\n-----END OPENSSH PRIVATE KEY-----",
    "AGE-SECRET¦-KEY-1{58:U}",
)  # fmt: skip
DEVELOPERS = (
    "gh¦p_{36:A}", "gh¦o_{36:A}", "gh¦u_{36:A}", "gh¦s_{36:A}", "gh¦r_{36:A}", "github¦_pat_{22:A}_{59:A}",
    "gl¦pat-{20:_}", "gl¦ptt-{40:x}", "gl¦rt-{20:_}", "gl¦cbt-1f_{20:_}", "gl¦dt-{20:_}", "gl¦soat-{20:_}",
    "ATAT¦T3xFfGF0{175:_}={8:X}", "ATC¦TT3xFfGN0{175:_}={8:X}", "ATB¦B{32:A}", "lin_¦api_{40:A}",
    "lin_¦oauth_{64:x}", "nt¦n_{46:A}", "sec¦ret_{43:A}", "pa¦t{14:A}.{64:x}", "fig¦d_{40:_}",
    "PM¦AK-{24:x}-{34:x}", "np¦m_{36:A}", "pyp¦i-AgEIcHlwaS5vcmc{85:_}", "ruby¦gems_{48:x}", "oy¦2{43:a}",
    "ci¦o{32:A}", "CLO¦JARS_{60:a}", "dck¦r_pat_{27:_}", "dck¦r_oat_{32:_}", "AKC¦p{69:A}",
    "CCI¦PAT_{22:A}_{40:x}", "bk¦ua_{40:x}", "sq¦u_{40:x}", "sg¦p_{16:x}_{40:x}", "rd¦me_{70:a}",
    "ops_¦eyJ{250:A}", "A3¦-{6:U}-{6:U}-{5:U}-{5:U}-{5:U}-{5:U}",
)  # fmt: skip
SERVICES = (
    "s¦k_live_{24:A}", "r¦k_live_{24:A}", "s¦k_test_{24:A}", "wh¦sec_{32:A}", "S¦K{32:x}",
    "S¦G.{22:_}.{43:_}", "k¦ey-{32:x}", "{32:x}-us¦12", "xkey¦sib-{64:x}-{16:A}", "r¦e_{8:A}_{24:A}",
    "xo¦xb-{12:d}-{12:d}-{24:A}", "xo¦xp-{12:d}-{12:d}-{12:d}-{32:x}", "xo¦xe.xoxp-1-{160:A}",
    "xa¦pp-1-A{10:U}-{13:d}-{64:x}", "https://hooks.slack¦.com/services/«T{8:U}/B{8:U}/{24:A}»",
    "https://hooks.slack¦.com/workflows/«T{8:U}/A{8:U}/{18:d}/{24:A}»", "M{23:A}.{6:_}.{38:_}",
    "https://discord¦.com/api/webhooks/{18:n}/«{68:_}»",
    "https://shop.webhook.office¦.com/webhookb2/«{1:uuid}@{1:uuid}/Incoming¦Webhook/{32:x}/{1:uuid}»",
    "{10:n}:AA{33:_}", "https://api.telegram¦.org/bot«{9:n}:AA{33:_}»/sendMessage", "gl¦sa_{32:A}_{8:x}",
    "gl¦c_{100:/}=", "ey¦JrIjoi{72:A}==", "NR¦AK-{27:U}", "{36:x}NR¦AL", "NR¦JS-{19:x}",
    "sn¦trys_eyJ{100:A}_{43:/}", "sn¦tryu_{64:x}", "dt¦0c01.{24:2}.{64:2}", "ph¦x_{43:A}", "sd¦k-{1:uuid}",
    "sh¦pat_{32:x}", "sh¦pss_{32:x}", "sh¦pca_{32:x}", "sq0¦csp-{43:_}", "EA¦AA{60:_}",
    "access¦-production-{1:uuid}", "access¦_token$production${16:a}${32:x}", "rz¦p_live_{14:A}",
    "FLW¦SECK-{32:x}-X", "CF¦PAT-{43:_}", "tf¦p_{59:_}", "s¦l.{130:_}", "pat¦-na1-{1:uuid}",
    "sk¦.eyJ{80:A}.{22:_}", "fi¦o-u-{64:_}", "EZ¦AK{54:A}", "ATT¦A{72:A}", "aio¦_{28:A}", "dbt¦u_{40:_}",
    "pn¦u_{36:A}", "00D{12:A}!AQ¦{90:_}",
)  # fmt: skip
WRITTEN = (
    "https://shop.s3.amazonaws.com/a.pdf?X-Amz-Expires=60&X-Amz-¦Signature=«{64:x}»",
    "https://storage.googleapis.com/shop/a.pdf?X-Goog-Expires=60&X-Goog-¦Signature=«{256:x}»&x=1",
    "https://shop.blob.core.windows.net/a/b.pdf?sv=2024-11-04&sp=r&s¦ig=«{43:A}%3D»",
    "https://d1.cloudfront.net/a.pdf?Expires=1780000000&Signature=«{170:A}__»&Key-Pair-Id=K{13:U}",
    'Authorization: «Di¦gest username="ines", realm="shop", nonce="{32:x}", uri="/a", response="{32:x}"»',
    ("Authorization: «AWS4-HMAC-¦SHA256"
     " Credential=AKIDEXAMPLE/20261121/us-east-1/s3/aws4_request, SignedHeaders=host, Signature={64:x}»"),
    "Authorization: «token {40:x}»", "X-Api-Key: «{32:a}»", "Proxy-Authorization: Ba¦sic «aW5lczo{20:A}»",
    "client_secret: |-\n  «{40:A}»\nregion: eu", "password: >\n  «{12:A}»\n",
    "database:\n  password: «{12:A}»\n", "data:\n  db-password: «{16:A}==»", "mysql -u root -p«{12:A}» shop",
    "mysqldump -uroot -p«{12:A}» shop > a.sql", "PGPASS¦WORD=«{12:A}» psql -h db",
    "sshpass -p «{12:A}» ssh build@host", "docker login -u ines -p «{12:A}» ghcr.io",
    "machine api.example.com login ines password «{12:A}»", "db.internal:5432:shop:app:«{12:A}»",
    "redis-cli -h cache -a «{20:A}» ping", "jdbc:postgresql://db/shop?user=app&password=«{12:A}»",
    "Server=db;Database=shop;User Id=app;Pass¦word=«{12:A}»;", "amqp://app:«{12:A}»@queue:5672/",
    "//registry.npmjs.org/:_auth¦Token=«{36:A}»", '<add key="ApiKey" value="«{32:a}»"/>',
    "ENV API_TOKEN «{32:a}»", "set PASSWORD «{4:L}{4:d}»", "My SSN is «{d:ssn}».", '{"ssn": "«{d:ssn}»"}',
    "pay to «{d:iban}» today", "IBAN «{d:iban groups}»", "Set-Cookie: «sid={32:A}; HttpOnly»",
    "eyJ¦{17:A}.eyJ{30:A}.{43:_}",
)  # fmt: skip
HARMLESS = (
    "Part 12-34-5678 and 123-4-5678 are in stock.", "Order 2026-11-2345, 123-456-7890123",
    "range 000-12-3456", "call 900-12-3456 or 666-12-3456", "12345-6789 is a ZIP code",
    "at 10:00:00-11:00:00", "ISBN 978-3-16-148410-0", 'class="sk-fading-circle sk-circle-fade-dot"',
    'class="re_order-list-item_wide"', "key-value-store-of-the-shop", "fc-header-toolbar fc-toolbar-chunk",
    "pat-na-turkey-and-rye", "sk_SK and sl_SI are locales", "sl.ide, fc-barcelona", "dp.prototype.toString",
    "git commit sha256:{64:x}", "sha256-{43:/}=", "digest md5 {32:x}", 'ETag: "{32:x}"',
    "{40:x} Fix the cart", "trace {32:x}, span {16:x}", "00-{32:x}-{16:x}-01", "{1:uuid}", "toolu_{24:A}",
    "call_{24:A}", "chatcmpl-{29:A}", "msg_{24:A}", "run_{24:A}", "asst_{24:A}", "thread_{24:A}",
    "req_{24:A}", "resp_{48:x}", "cus_{14:A}", "pi_{24:A}", "in_{24:A}", "price_{24:A}", "file-{24:A}",
    "ft:gpt-4o-mini:shop::{8:A}", "https://discord.com/channels/{18:n}/{18:n}",
    "https://hooks.slack.com/docs", "https://api.telegram.org/bots/list",
    "https://example.com/?design=compact-{24:a}", "https://example.com/?Signature=none&x=1",
    "https://shop.s3.amazonaws.com/a.pdf?X-Amz-Expires=60&X-Amz-Date=20261121T100000Z",
    "https://docs.google.com/document/d/{44:_}/edit", "https://youtu.be/{11:_}",
    "https://a.example.com/{22:_}.png", 'The digest response is "ok".', "Authorization: see RFC 7235",
    "Signature=method(a, b)", "def sign(signature=None):", "mkdir -p /srv/shop/images",
    "cp -pr a b; ls -pla", "docker run -p 8080:80 shop", "ssh -p 2222 build@host", "mysql -uroot -p shop",
    "mysql --protocol=tcp", "mysql -p -h db.internal", "sshpass -e ssh build@host", "nmap -p1-1024 host",
    "redis-cli -a", "redis-cli -h cache ping", "password: |", "password: >",
    "description: |-\n  a long text of words\n", "The password field is required.",
    "machine learning login flow password reset", "db.internal:5432:shop", "10:20:30:40:50", "a:b:c:d:e",
    "ENV PATH /usr/local/bin", "ENV LANG C.UTF-8", "set TOKENIZERS_PARALLELISM false", "max_tokens: 4096",
    "token count 12345678", "de facto standard 4000 words", "at 89 to 90 degrees",
    "gb29 nwbk is the beginning of an account", "be68 539 chairs", "no93 8601 1117 948 boxes",
    "arn:aws:iam::123456789012:role/shop", "projects/shop/locations/eu/keyRings/a/cryptoKeys/b",
    "AKIA is the beginning of a key", "the beginning glsa_ is Grafana's", "ghp_ and gho_",
    "use sk-… as the key", "sk-xxxx", "hvs.example", "ops_team_weekly_report_of_november",
    "ntn_network_topology_node", "pul-request", "lin_algebra_matrix_product", "sbp_blood_pressure",
    "EAA is an abbreviation", "ATTACHMENT_LIST_OF_THE_ORDER_2026", "AGE-SECRET is a format",
    "model gemini-2.5-flash-preview-05-20", "claude-sonnet-4-5-20250929", "gpt-4o-2024-08-06",
    "text-embedding-3-large", "meta-llama/Llama-3.3-70B-Instruct", "mistral-small-2506",
    "us.anthropic.claude-3-7-sonnet-20250219-v1:0", "v1.0-beta.3", "k8s.gcr.io/pause:3.9",
    "shop-7d4b9c6f5d-x2x7q", "sk.wikipedia.org/wiki/Bratislava", "hc_sr04_ultrasonic_sensor", "rnd_seed_42",
    "re_id = 5", "e2b_sandbox_template_id", "price 1,234.56; 99.95 EUR", "2026-11-21T12:00:01.123456789Z",
    "+0.25% (12-month)", "192.168.100.200:8080", "aio_pika.robust_connection",
    "napi_threadsafe_function_call_mode", "oy2 and cio are short", "FLWSECK-TEST", "conversation-{12:d}",
    "cart_{10:d}", "ORD-{8:d}-{4:d}", "{12:d}", "tracking 1Z{16:U} is in transit", "session_{32:x}",
    "adk-{36:x}", "function-call-{19:n}", "lc_run--{8:x}-{4:x}-{4:x}", "proj_{24:A}", "org-{24:A}",
)  # fmt: skip

SHAPES = {
    "keys of models": MODELS,
    "keys of clouds": CLOUDS,
    "keys of developers' tools": DEVELOPERS,
    "keys of other services": SERVICES,
    "signed URLs, headers, YAML, command lines, SSN, IBAN": WRITTEN,
}


def published_secrets(seed: int = 2026) -> Iterator[Line]:
    """Yield a line of text for each shape."""
    r = random.Random(seed)
    for kind, shapes in SHAPES.items():
        for number, shape in enumerate(shapes):
            made = _made(shape, r)
            if "«" not in made:
                sentence = _SENTENCES[number % len(_SENTENCES)]
                made = sentence.replace("§", f"«{made}»".replace("\n", "\\n" if sentence[0] == "{" else "\n"))
            yield Line(kind, re.sub("[«»]", "", made), tuple(re.findall("«(.*?)»", made, re.DOTALL)))


def published_harmless(seed: int = 2026) -> Iterator[Line]:
    """Yield lines that hold no secret and look like some of the shapes."""
    r = random.Random(seed)
    for shape in HARMLESS:
        yield Line("looks alike", _made(shape, r))


def _made(shape: str, r: random.Random) -> str:
    def slot(found: re.Match[str]) -> str:
        number, kind = found[1], found[2]
        if kind == "uuid":
            return str(uuid.UUID(int=r.getrandbits(128), version=4))
        if kind == "ssn":
            return f"{r.randrange(100, 660)}-{r.randrange(10, 99)}-{r.randrange(1000, 9999)}"
        if kind.startswith("iban"):
            account = "".join(r.choices(string.digits, k=18))
            iban = f"de{98 - int(account + '131400') % 97:02}{account}"
            return " ".join(iban[at : at + 4] for at in range(0, 22, 4)) if "groups" in kind else iban
        return "".join(r.choices(_ALPHABETS[kind], k=int(number)))

    return re.sub(r"\{(\w+):([^}]+)\}", slot, shape.replace("¦", ""))
