"""Batches are bounded by what they hold, however long a record is."""

from __future__ import annotations

from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store.arrow import BATCH, batches

MEGABYTE = "x" * 2**20


def test_a_batch_holds_8_192_records_or_48_megabytes_of_text_wherever_it_is() -> None:
    short = [Span("t", f"{i}", None, "chat", "CLIENT", 1, 2, attributes={"a": "b"}) for i in range(BATCH + 2)]
    in_attributes = short[0]._replace(attributes={"messages": [{"text": MEGABYTE}]})
    in_event = short[0]._replace(events=[{"name": "message", "attributes": {"content": MEGABYTE}}])
    in_body = LogRecord("t", "1", 1, "message", body={"content": MEGABYTE})
    assert [len(batch) for batch in batches(short)] == [BATCH, 2]
    for long in (in_attributes, in_event, in_body):
        assert [len(batch) for batch in batches([long] * 100)] == [48, 48, 4]


def test_a_record_that_is_longer_than_a_batch_is_a_batch_of_its_own() -> None:
    long = Span("t", "1", None, "chat", "CLIENT", 1, 2, attributes={"messages": [MEGABYTE] * 50})
    assert [len(batch) for batch in batches([long, long])] == [1, 1]
