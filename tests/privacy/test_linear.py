"""Redaction takes time in proportion to the text, whatever the text is made of."""

from __future__ import annotations

import time

import pytest

from spangrade.tracer.redaction import Redaction
from spangrade.tracer.span import LogRecord

SMALL, LARGE = 2_000, 32_000  # characters: 16 times the work if linear, 256 times if quadratic
MOST = 64
NOISE_S = 0.1

UNITS = [
    *(
        "a",
        "@",
        "a@",
        "a@a.",
        "'a",
        ".",
        "-",
        "a.a-",
        "%40",
        "\\u0041",
        "\\u0022",
        "\u200b",
        "\uff11",
        "\u0664",
    ),
    *(
        "1 ",
        "1-",
        "12.",
        "1.1-",
        "4 ",
        "6 1 ",
        "4 1 1 1 ",
        "4111111111111111 ",
        "4111.1111.1111.1111.",
        "0-",
        "f3-",
        "00000000-",
    ),
    *(
        "mysql ",
        "mysql -p ",
        "mysql a -p",
        "docker login ",
        "docker login -p ",
        "redis-cli ",
        "redis-cli -a ",
    ),
    *(
        "password: |\n a\n ",
        "password: >\n  ",
        "password: | ",
        "Authorization: Digest a=b, ",
        "ENV password ",
        "ENV ",
    ),
    *(
        "machine a.b login ",
        ":5432:",
        "Q~",
        "aaaa8Q~",
        "sk.eyJ",
        "sk.eyJaaaaaaaaaaaaaaaaaaaaaaaa",
        "00Daaaaaaaaaaaa!AQ",
    ),
    *(
        "M.aaaaaa.",
        "Ma",
        "A3-",
        "A3-AAAAAA-",
        "ghp_",
        "glpat-",
        "sl.a",
        "&sig=",
        "de12 ",
        "de12 3456 ",
        "123-45-",
    ),
    *(
        'key="password" ',
        "key=password value=",
        "1//0",
        "/api/webhooks/",
        "webhook.office.com/webhookb2/",
        ":AA",
    ),
    *("A1", "AB12 ", "DE12 3456 ", "+1 ", "+1(", "%2B1", "(1"),
    *(
        "eyJ",
        "eyJa.",
        "eyJaaaaa.aaaaaa",
        "bearer ",
        "Bearer:",
        "basic ",
        "Basic aaaaaaaa",
        "sk-",
        "sk-a.",
        "AIza",
    ),
    *("xoxb-", "AKIA", "hooks.slack.com/services/", "-----BEGIN ", "-----BEGIN PRIVATE KEY", "-----BEGIN A"),
    *("://", "://a:", "://a:a@", "://:", "a:a@", ":a", "-u a:", "-u a:b "),
    *(
        "password=",
        "password: ",
        "password",
        "password:a",
        "password=[",
        "password={",
        "password=(",
        "--password ",
    ),
    *("token:a(", "token: a ", "cookie: a", "cookie: a=", "authorization:a", "authorization: ", "a:", "a="),
    *('{"password":', '{"password":[', "'password':'", "'password': '\\", "('password', ", "<password>"),
    *('"name": "password", ', '"value": "x", ', '"value": "x", "name": "password", ', '\\"password\\": \\"'),
    *("'\\", "\\'", '\\"', '"\\', "b'", '[{"', "[", "{", "("),
]
# Before and after them: what makes every pattern look at the text, and what makes a match fail at its end.
AROUND = [("", ""), ("password=", "1.5"), ("x@y.de password: eyJ sk- + bearer basic ://a -u ", "\u200b@")]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.short_form("unit", 12)
def test_sixteen_times_the_text_takes_no_more_than_some_sixteen_times_the_time(unit: str) -> None:
    redact = Redaction("mask")
    for before, after in AROUND:
        small, large = (before + unit * (size // len(unit)) + after for size in (SMALL, LARGE))
        limit_s = MOST * min(_seconds(redact, small), _seconds(redact, small)) + NOISE_S
        # The best of two, of which the second is needed only if something disturbed the first.
        assert any(_seconds(redact, large) <= limit_s for _ in range(2)), (before, after)


def _seconds(redact: Redaction, text: str) -> float:
    """Return the processor time that a text takes."""
    began = time.process_time()
    redact(LogRecord(None, None, 1, None, body=text))
    return time.process_time() - began


def test_a_thousand_cards_in_a_row_are_found() -> None:
    redacted = Redaction("mask")(LogRecord(None, None, 1, None, body="4111111111111111 " * 5_000))
    assert redacted.body == "[card] " * 5_000
