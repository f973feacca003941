"""Redaction: nothing of what is to be found slips through, wherever it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from receiving import receiver, request

from spangrade import InputError
from spangrade.tracer.exporter import DuckDBSpanExporter
from spangrade.tracer.redaction import Redaction, redaction
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.spool import drain, recover

MASK = Redaction("mask")
SECRETS = {
    "bob.o'hara+shop@mail.example.com": "email",
    "größe@exämple.de": "email",
    "bob%40example.com": "email",
    "4111 1111 1111 1111": "card",
    "378282246310005": "card",
    "5555-5555-5555-4444": "card",
    "+49 (30) 1234-5678": "phone",
    "+14155550123": "phone",
    "(415) 555-0123": "phone",
    "415.555.0123": "phone",
    "1-415-555-0123": "phone",
    "Bearer abc123.def-456_ghi": "key",
    "sk-proj-abcdefghijklmnopqrstuvwx": "key",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv": "key",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789": "key",
    "xoxb-123456789012-abcdef": "key",
    "AKIAIOSFODNN7EXAMPLE": "key",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_123": "key",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----": "key",
}
HARMLESS = [
    "Where is order 4111111111111112?",  # no valid check digit
    "2026-11-21T12:00:01.123456789Z",
    "550e8400-e29b-41d4-a716-446655440000",
    "0.4111111111111111",
    "1780000000000000001",
    "call_9f8e7d6c5b4a3210",
    "v1.2.3 of 100.200.300",
    "user @ example, a@b",
    "000000012345",
    "sk-8 and gh_x",
    '{"a": "\\u00e9"}',
]


def redacted(value: Any) -> Any:
    return MASK(LogRecord(None, None, 1, None, body=value)).body


@pytest.mark.parametrize(("secret", "kind"), SECRETS.items())
def test_each_kind_is_found_in_a_sentence(secret: str, kind: str) -> None:
    assert redacted(f"it is {secret}, she said") == f"it is [{kind}], she said"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_alike_stays(text: str) -> None:
    assert redacted(text) == text


def test_a_card_is_found_among_other_groups_of_digits() -> None:
    assert redacted("12 4111 1111 1111 1111 34, 1 2 3") == "12 [card] 34, 1 2 3"
    assert redacted({"n": 4111111111111111, "f": 4111111111111111.0, "m": -378282246310005}) == {
        "n": "[card]",
        "f": "[card]",
        "m": "[card]",
    }


def test_a_key_takes_its_whole_value_with_it() -> None:
    body = {"password": "p", "x": {"API_KEY": {"a": [1]}, "set-cookie": None, "max_tokens": 5}, "token": 1}
    assert redacted(body) == {
        "password": "[redacted]",
        "x": {"API_KEY": "[redacted]", "set-cookie": None, "max_tokens": 5},
        "token": "[redacted]",
    }


def test_patterns_of_keys_can_be_added() -> None:
    also = redaction("mask:*iban*, shoe.size")
    assert also is not None
    log = LogRecord(None, None, 1, None, attributes={"user.IBAN": "DE1", "shoe.size": 43, "shoe": 1})
    assert also(log).attributes == {"user.IBAN": "[redacted]", "shoe.size": "[redacted]", "shoe": 1}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "bob\\u0040example.com"}',
        '{"a": "bob\\u0040example.com", "b": ',  # cut short: no JSON any more
        '{"a": "bob\\u00f6@ex\\u00e4mple.com", "b": ',
        '{"a":"bob@example.com","a":1}',
        '"{\\"a\\":\\"{\\\\\\"b\\\\\\":\\\\\\"bob\\\\\\\\u0040example.com\\\\\\"}\\"}"',
        '[NaN, "bob@example.com"]',
    ],
)
def test_json_inside_text_hides_nothing(text: str) -> None:
    found = redacted(text)
    assert "[email]" in found
    assert "bob" not in found


def test_json_text_without_a_find_stays_as_it_was_written() -> None:
    text = '{ "b" : 1.0,\n "a":"\\u00e9" }'
    assert redacted(text) == text


wrapped = st.recursive(
    st.tuples(st.sampled_from(sorted(SECRETS)), st.sampled_from(["", "x ", "<", "tel: ", "é "])).map(
        lambda found: f"{found[1]}{found[0]} end"
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.dictionaries(st.sampled_from(["a", "user.id", "text"]), inner, min_size=1),
        inner.map(json.dumps),
        inner.map(lambda value: json.dumps(value, ensure_ascii=False)),
        inner.map(lambda value: {str(value): "as a key"}),
    ),
    max_leaves=5,
)


@given(wrapped, st.sampled_from(["mask", "hash"]))
@example({json.dumps(json.dumps("größe@exämple.de end")): "as a key"}, "mask")
def test_nothing_slips_through_wherever_it_stands(value: Any, mode: Any) -> None:
    redact = Redaction(mode, key="k")
    attributes = {"v": value, "gen_ai.tool.call.result": json.dumps(value), "gen_ai.conversation.id": value}
    text = value if isinstance(value, str) else json.dumps(value)
    span = Span("a" * 32, "b" * 16, None, text, "CLIENT", 1, 2, "ERROR", text)._replace(
        attributes=attributes,
        events=[{"name": text, "time_ns": 1, "attributes": attributes}],
        links=[{"trace_id": "c" * 32, "span_id": "d" * 16, "attributes": attributes}],
        resource=attributes,
        trace_state=text,
    )
    log = LogRecord(None, None, 1, text, None, value, attributes, attributes)
    whole = unwrapped([*redact(span)[3:], *redact(log)[3:]])
    for secret in SECRETS:
        assert secret not in whole


def unwrapped(value: Any) -> str:
    """All text of a value, JSON within text included, with nothing escaped."""
    return "\n".join(parts(value))


def parts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        try:
            inner = json.loads(value)
        except ValueError:
            return
        if inner != value:
            yield from parts(inner)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from parts(key)
            yield from parts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from parts(item)
    else:
        yield str(value)


def test_a_history_that_goes_on_is_redacted_as_if_it_were_the_first() -> None:
    said = [{"role": "user", "content": f"{number}: {'words ' * 100}"} for number in range(5)]
    secret = {"role": "user", "content": "write to jane@example.com"}
    pairs = [["authorization", "basic"], ["cookie", "none"]]
    histories: list[list[Any]] = [
        said[:2],
        said[:3],
        said[:3],
        [*said[:3], pairs],
        [*said[:3], secret, said[3]],
        [*said[:3], secret, said[3], said[4]],  # goes on what was changed
        [*said[:2], secret],  # a branch
        [*said[1:], {"password": "hunter2"}],
    ]
    texts = [json.dumps(one, separators=mark) for one in histories for mark in (None, (",", ":"))]
    doubled = texts[2][:-1] + ', {"a": "jane@example.com", "a": 1}'
    texts += [doubled + "]", doubled + ', {"b": 2}]', texts[2][:-1] + ",]", texts[2] + "]", texts[2][:-1]]
    together = Redaction("hash", key="k")
    assert [together.value(text) for text in texts] == [
        Redaction("hash", key="k").value(text) for text in texts
    ]
    assert "jane@example.com" not in "".join(map(together.value, texts))


def test_identifiers_stay_apart_where_they_are_masked() -> None:
    sessions = [
        MASK(LogRecord(None, None, 1, None, attributes={"gen_ai.conversation.id": f"{name}@example.com"}))
        for name in ("ann", "bob", "ann")
    ]
    ann, bob, again = (log.attributes["gen_ai.conversation.id"] for log in sessions)
    assert ann == again != bob
    assert ann.startswith("[email:")


def test_a_hash_is_the_same_with_the_same_key_and_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogRecord(None, None, 1, None, body="bob@example.com")
    assert Redaction("hash", key="k")(log).body == Redaction("hash", key="k")(log).body
    assert Redaction("hash", key="k")(log).body != Redaction("hash", key="other")(log).body
    monkeypatch.delenv("SPANGRADE_REDACT_KEY", raising=False)
    with pytest.raises(InputError, match=r"set \$SPANGRADE_REDACT_KEY"):
        redaction("hash")


def test_the_setting_is_off_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPANGRADE_REDACT", raising=False)
    assert redaction(None) is None
    monkeypatch.setenv("SPANGRADE_REDACT", "mask")
    assert isinstance(redaction(None), Redaction)
    assert redaction("off") is None
    with pytest.raises(InputError, match="redaction is 'yes': use off, mask or hash"):
        redaction("yes")


def test_the_exporter_stores_what_is_left(tmp_path: Any) -> None:
    exporter = DuckDBSpanExporter(tmp_path / "s.duckdb", redact="mask")
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.get_tracer("t").start_span("s", attributes={"a": "bob@example.com"}).end()
    with Store.open(exporter.db, read_only=True) as store:
        assert store.query("SELECT attributes::VARCHAR FROM spans") == [('{"a":"[email]"}',)]


def test_the_receiver_puts_only_what_is_left_on_disk(tmp_path: Any) -> None:
    with receiver(tmp_path / "s.duckdb", "--redact", "mask") as started:
        body = request(0, 1, a="bob@example.com").SerializeToString()
        headers = {"Content-Type": "application/x-protobuf"}
        assert requests.post(started.http + "/v1/traces", data=body, headers=headers, timeout=20).ok
        started.process.kill()
        started.process.wait()
    on_disk = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"bob@" not in on_disk
    recover(tmp_path / "s.duckdb")
    with Store.open(tmp_path / "s.duckdb") as store:
        drain(store)
        assert store.query("SELECT attributes::VARCHAR FROM spans") == [('{"a":"[email]"}',)]


@pytest.mark.parametrize(
    "beginning",
    [
        "dckr_pat_", "glsa_", "glc_", "ATATT3", "HRKU-", "sbp_", "ntn_", "lin_api_", "NRAK-", "ops_eyJ",
        "AGE-SECRET-KEY-1", "12345678:AA", "a1b2c3d4e5f6g7.atlasv1.",
    ],
)  # fmt: skip
def test_a_key_is_found_by_the_beginning_that_its_vendor_publishes(beginning: str) -> None:
    key = beginning + ("a1B2" * 20)[: 33 if beginning.endswith(":AA") else 60]
    record = Redaction("mask")(LogRecord(None, None, 1, None, body=f"use {key} for it"))
    assert record.body == "use [key] for it"


@pytest.mark.parametrize("name", ["X-Amz-Signature", "X-Goog-Signature", "sig"])
def test_the_signature_of_a_url_is_found(name: str) -> None:
    url = "https://objects.example.com/a?expires=60&"
    record = Redaction("mask")(LogRecord(None, None, 1, None, body=f"{url}{name}={'a1b2' * 16}&x=1"))
    assert record.body == f"{url}{name}=[key]&x=1"


@pytest.mark.parametrize(
    ("setting", "variable", "expected"),
    [
        (None, "mask:*iban*, *ssn*", {"my_iban": "[redacted]", "the_ssn": "[redacted]"}),
        (None, " mask: *iban* ", {"my_iban": "[redacted]", "the_ssn": "x"}),
        (None, "", None),
        (None, None, None),
        ("", "mask:*ssn*", None),  # what is given counts, the empty too
        ("off", "mask:*ssn*", None),
        ("MASK:,*ssn*,", None, {"my_iban": "x", "the_ssn": "[redacted]"}),
        ("mask", "mask:*ssn*", {"my_iban": "x", "the_ssn": "x"}),
    ],
)
def test_a_setting_that_is_given_counts_more_than_the_environment(
    setting: str | None, variable: str | None, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPANGRADE_REDACT", raising=False)
    if variable is not None:
        monkeypatch.setenv("SPANGRADE_REDACT", variable)
    found = redaction(setting)
    assert (None if found is None else found.value({"my_iban": "x", "the_ssn": "x"})) == expected
