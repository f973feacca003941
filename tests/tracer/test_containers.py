"""Files that hold more than one document: the Collector's messages, tables, and lists too long for memory."""

from __future__ import annotations

import gzip
import io
import json
import time
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from paths import FIXTURES

from spangrade import InputError
from spangrade.tracer.base.json_text import _CHUNK, _FURTHER, BadItem, NextDocuments, Portion, portions
from spangrade.tracer.files import read
from spangrade.tracer.span import Problem, Span

TRACE = "0af7651916cd43dd8448eb211c80319c"
READERS = FIXTURES / "readers"


def record(number: int, **changes: Any) -> dict[str, Any]:
    times = {"startTimeUnixNano": "10", "endTimeUnixNano": "20"}
    return {"traceId": TRACE, "spanId": f"{number:016x}", "name": "n", **times} | changes


def request(*numbers: int, **changes: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": [record(n, **changes) for n in numbers]}]}]}


def stored(number: int, **changes: Any) -> Span:
    return Span(TRACE, f"{number:016x}", None, "n", "INTERNAL", 10, 20)._replace(**changes)


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        path = tmp_path / "recording"
        path.write_bytes(content)
        return path

    return write


def message(*numbers: int) -> bytes:
    whole = ExportTraceServiceRequest()
    spans = whole.resource_spans.add().scope_spans.add().spans
    for number in numbers:
        identity = {"trace_id": bytes.fromhex(TRACE), "span_id": number.to_bytes(8, "big"), "name": "n"}
        spans.add(**identity, start_time_unix_nano=10, end_time_unix_nano=20)
    return whole.SerializeToString()


def framed(messages: Iterable[bytes]) -> bytes:
    """Return messages as the Collector's file exporter writes them with `format: proto`."""
    return b"".join(len(each).to_bytes(4, "big") + each for each in messages)


@pytest.mark.parametrize(
    "content",
    [
        framed([message(1, 2), message(3)]),
        framed([zstd.compress(message(1, 2)), zstd.compress(message(3))]),
        framed([zstd.compress(orjson.dumps(request(1, 2))), zstd.compress(orjson.dumps(request(3)))]),
        zstd.compress(orjson.dumps(request(1, 2)) + b"\n" + orjson.dumps(request(3))),
        zstd.compress(message(1, 2, 3)),
    ],
    ids=[
        "protobuf",
        "compressed protobuf",
        "compressed JSON",
        "JSON lines in one zstd",
        "protobuf in one zstd",
    ],
)
def test_files_of_the_collector_are_read(content: bytes, file: Callable[[bytes], Path]) -> None:
    assert list(read(file(content))) == [stored(1), stored(2), stored(3)]


def test_a_message_of_123_bytes_is_not_taken_for_utf_32(file: Callable[[bytes], Path]) -> None:
    long = ExportTraceServiceRequest.FromString(message(1))
    long.resource_spans[0].scope_spans[0].scope.name = "s" * (123 - len(message(1)) - 4)
    content = framed([long.SerializeToString()])
    assert content.startswith(b"\0\0\0{\n")
    assert [found.span_id for found in read(file(content)) if isinstance(found, Span)] == [f"{1:016x}"]


def test_a_message_that_is_broken_is_lost_alone(file: Callable[[bytes], Path]) -> None:
    compressed = zstd.compress(message(2) * 50)
    content = framed([message(1), b"\n\xff" + b"x" * 20, compressed[:-9], b"", message(3)])
    path = file(content + framed([message(4)])[:-5])
    found = list(read(path))
    assert [each for each in found if isinstance(each, Span)] == [stored(1), stored(3)]
    where, reasons = zip(
        *((each.where, each.message) for each in found if isinstance(each, Problem)), strict=True
    )
    assert where == tuple(f"{path} message {number}" for number in (2, 3, 6))
    assert reasons[0].startswith("binary content of another kind; expected one of the formats")
    assert reasons[1] == "broken zstd (not complete, or more than 2147483647 bytes)"
    assert reasons[2] == f"cut short: expected {len(message(4))} bytes, found {len(message(4)) - 5}"


def test_a_zstd_file_that_is_broken_is_refused(file: Callable[[bytes], Path]) -> None:
    path = file(zstd.compress(orjson.dumps(request(1), option=orjson.OPT_INDENT_2))[:-9])
    with pytest.raises(InputError, match=r": a broken (gzip|zstd) file \("):
        list(read(path))


def test_bytes_that_are_not_utf_8_lose_their_span_alone(file: Callable[[bytes], Path]) -> None:
    line = orjson.dumps(request(1, 2, 3)).replace(b'"n"', b'"\xff\xfe"', 1)
    reason = "not valid JSON (a string that is not UTF-8)"
    where = "resourceSpans[0].scopeSpans[0].spans[0]"
    path = file(line + b"\n" + orjson.dumps(request(4)))
    assert list(read(path)) == [Problem(f"{path}:1 {where}", reason), stored(2), stored(3), stored(4)]
    path = file(line)
    assert list(read(path)) == [Problem(f"{path} {where}", reason), stored(2), stored(3)]


def zipkin(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "traceId": TRACE,
        "id": f"{number:016x}",
        "name": "n",
        "timestamp": 1,
        "duration": 1,
        "tags": {},
    } | changes


def from_zipkin(number: int) -> Span:
    return stored(number, start_ns=1000, end_ns=2000)


def test_an_item_that_is_not_json_is_lost_alone(file: Callable[[bytes], Path]) -> None:
    items = [json.dumps(zipkin(number)).encode() for number in range(1, 6)]
    items[1], items[3] = b'{"traceId": \xff}', b"[" * 200_000 + b"]" * 200_000
    path = file(b"[" + b",\n ".join(items) + b"]")
    assert list(read(path)) == [
        from_zipkin(1),
        Problem(f"{path} [1]", "not UTF-8 at byte 14"),
        from_zipkin(3),
        Problem(f"{path} [3]", "JSON nested too deeply"),
        from_zipkin(5),
    ]


def test_a_list_that_is_cut_short_gives_the_items_before(file: Callable[[bytes], Path]) -> None:
    path = file(json.dumps([zipkin(1), zipkin(2)])[:-30].encode())
    assert list(read(path)) == [from_zipkin(1), Problem(f"{path} [1]", "JSON cut short")]


def long_list(make: Callable[[int], Any], count: int) -> bytes:
    return b"[" + b",".join(orjson.dumps(make(number)) for number in range(1, count + 1)) + b"]"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "make",
    [
        lambda: long_list(lambda number: zipkin(number, tags={"a": ']}\\"' * 2000}), 3000),
        lambda: (
            b'{"batches":'
            + long_list(
                lambda number: request(number, attributes=[])["resourceSpans"][0] | {"x": '\\"[' * 2000}, 3000
            )
            + b', "more": [1]}'
        ),
    ],
    ids=["a list", "a document that begins with a list"],
)
@pytest.mark.short_form("make", 2)
def test_a_long_list_is_read_in_portions(make: Callable[[], bytes], file: Callable[[bytes], Path]) -> None:
    content = make()
    path = file(content)
    assert len(content) > 20_000_000
    tracemalloc.start()
    found = [type(record) for record in read(path)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [Span] * 3000
    assert peak < 3 * 2**23  # the beginning that is looked at, twice, and a portion


def test_a_problem_in_a_later_portion_is_named_by_its_place_in_the_whole() -> None:
    text = long_list(lambda number: {"n": "x" * 300_000, "number": number}, 9).replace(
        b'"number":7', b'"number":?'
    )
    found = list(portions(io.BytesIO(text).read))
    places = [(each.first, len(each.document)) if isinstance(each, Portion) else each.where for each in found]
    assert places == [(0, 4), (4, 2), "[6]", (7, 2)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_portions_are_the_same_however_the_text_arrives(size: int) -> None:
    document = {"data": [{"a": 'x"],\\'}, [1, {"b": "[{"}], "]", 5, None, {}], "total": {"n": [1]}}
    text = json.dumps(document, indent=1).encode()
    stream = io.BytesIO(text)
    assert list(portions(lambda _: stream.read(size))) == [
        Portion({"data": document["data"]}, 0),
        Portion({"total": {"n": [1]}}, None),
    ]


# Items that begin alike, and the text between two of them in strings and in objects within.
_ALIKE = st.one_of(
    st.builds(
        lambda one: {"a": one},
        st.sampled_from([1, ', {"a": ', '"}, {"a": ', "\\", {"b": [{"a": 1}, {"a": 2}]}]),
    ),
    st.sampled_from([{}, {"b": 1}, 5, None, [], [{"a": 1}, {"a": 2}], {"a": [{"a": 1}, {"a": {}}], "b": 2}]),
)


@given(
    items=st.lists(_ALIKE, max_size=8),
    broken=st.none() | st.integers(0, 7),
    size=st.integers(1, 400),
    indent=st.none() | st.just(1),
)
def test_items_that_begin_alike_end_where_they_end(
    items: list[Any], broken: int | None, size: int, indent: int | None
) -> None:
    texts = [json.dumps(one, indent=indent) for one in items]
    if broken is not None and broken < len(items):
        texts[broken] = '{"a": ?}'
    stream = io.BytesIO(f"[{', '.join(texts)}] 7".encode())
    found: list[Any] = []
    for one in portions(lambda _: stream.read(size)):
        if isinstance(one, Portion):
            assert one.first == len(found)
            found += one.document
        elif isinstance(one, BadItem):
            assert one.where == f"[{len(found)}]"
            found.append("broken")
        else:
            assert one == NextDocuments(b"7")
    assert found == ["broken" if place == broken else one for place, one in enumerate(items)]


@pytest.mark.parametrize("length", [_FURTHER - 10, _FURTHER + _CHUNK])
def test_an_item_that_is_longer_than_what_is_looked_through_at_once_is_whole(length: int) -> None:
    items = [{"a": 1}, {"a": 2}, {"a": "x" * length}, {"a": 4}]
    found = [one.document for one in portions(io.BytesIO(json.dumps(items).encode()).read)]  # type: ignore[union-attr]
    assert [one for portion in found for one in portion] == items


def test_what_follows_a_list_is_not_ignored() -> None:
    assert list(portions(io.BytesIO(b"[1] 2").read)) == [
        Portion([1], 0),
        NextDocuments(b"2"),
    ]
    assert list(portions(io.BytesIO(b'{"data": [1], "x"').read)) == [
        Portion({"data": [1]}, 0),
        BadItem("after data", "JSON cut short at byte 5"),
    ]


def test_json_lines_with_a_long_first_line_are_read(file: Callable[[bytes], Path]) -> None:
    long = request(1) | {"x": "y" * 2**23}
    path = file(orjson.dumps(long) + b"\n" + orjson.dumps(request(2)) + b"\n7\n" + orjson.dumps(request(3)))
    *found, last = read(path)
    assert found[0:2] == [stored(1), stored(2)]
    assert isinstance(found[2], Problem)
    assert (found[2].where, last) == (f"{path}:3", stored(3))


FORMS = [
    orjson.dumps,
    lambda value: json.dumps(value, indent=2).encode(),
    lambda value: b"\x1e" + orjson.dumps(value),
]


@given(
    forms=st.lists(st.sampled_from(FORMS), min_size=1, max_size=5),
    between=st.sampled_from([b"", b"\n", b" ", b"\r\n\r\n", b"\x1e"]),
    start=st.sampled_from([b"", b"\n", b"\x1e"]),
)
def test_documents_are_read_whatever_stands_between_them(
    forms: list[Callable[[Any], bytes]],
    between: bytes,
    start: bytes,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("documents") / "recording"
    path.write_bytes(start + between.join(form(request(n)) for n, form in enumerate(forms, 1)))
    assert list(read(path)) == [stored(n) for n in range(1, len(forms) + 1)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.short_form("indent", 2)
def test_documents_after_one_that_is_read_in_portions_are_read(
    file: Callable[[bytes], Path], indent: int | None
) -> None:
    long = request(1)
    long["resourceSpans"][0]["resource"] = {
        "attributes": [{"key": "x", "value": {"stringValue": "y" * 2**23}}]
    }
    further = "".join(json.dumps(request(n), indent=2) for n in (2, 3))
    path = file((json.dumps(long | {"more": [[1], {}]}, indent=indent) + further).encode())
    assert [found.span_id for found in read(path) if isinstance(found, Span)] == [
        f"{n:016x}" for n in (1, 2, 3)
    ]


def test_documents_in_a_list_are_read(file: Callable[[bytes], Path]) -> None:
    path = file(orjson.dumps([request(1), {"level": "info"}, request(2, traceId="")]))
    first, *problems = read(path)
    assert first == stored(1)
    assert [found.where for found in problems if isinstance(found, Problem)] == [
        f"{path} [1]",
        f"{path} [2].resourceSpans[0].scopeSpans[0].spans[0]",
    ]


@pytest.mark.parametrize("further", [b'{"resourceSpans": [', b"nothing", b"[" * 2_000_000])
def test_a_document_that_has_no_end_is_lost_with_what_follows(
    file: Callable[[bytes], Path], further: bytes
) -> None:
    path = file(orjson.dumps(request(1)) + orjson.dumps(request(2)) + further)
    *found, last = read(path)
    assert found == [stored(1), stored(2)]
    assert isinstance(last, Problem)
    assert last.where == f"{path} document 3"


def test_a_list_nested_without_end_is_refused_before_it_is_read(file: Callable[[bytes], Path]) -> None:
    path = file(gzip.compress(b"[" * 50_000_000))
    started = time.process_time()
    assert list(read(path)) == [Problem(f"{path} [0]", "JSON nested too deeply")]
    assert time.process_time() - started < 1


def test_a_document_on_several_lines_among_json_lines_is_read(file: Callable[[bytes], Path]) -> None:
    lines = orjson.dumps(request(1)) + b"\n[]\n" + json.dumps(request(2), indent=1).encode() + b"\n"
    path = file(lines + b"{\n 1\n" + orjson.dumps(request(3)))
    assert [found if isinstance(found, Span) else found.where for found in read(path)] == [
        stored(1),
        stored(2),
        f"{path}:{len(lines.splitlines()) + 1}",
        stored(3),
    ]


def test_what_a_console_exporter_printed_is_refused_with_the_exporter_to_use(
    file: Callable[[bytes], Path],
) -> None:
    exporter = ConsoleSpanExporter(out=(printed := io.StringIO()))
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for _ in range(2):
        provider.get_tracer("shop").start_span("chat").end()
    for content in (printed.getvalue(), f"INFO started\n{printed.getvalue()}"):
        with pytest.raises(InputError, match="OTEL_TRACES_EXPORTER=otlp"):
            list(read(file(content.encode())))


def test_rows_in_json_lines_with_a_long_first_line_are_read(file: Callable[[bytes], Path]) -> None:
    rows = [
        stored(number)._asdict() | {"attributes": {"x": "y" * 2**23} if number == 1 else {}}
        for number in (1, 2)
    ]
    path = file(b"\n".join(map(orjson.dumps, rows)))
    assert [found.span_id for found in read(path) if isinstance(found, Span)] == [f"{n:016x}" for n in (1, 2)]


def database(path: Path, *statements: str) -> Path:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


SPANS = (
    "CREATE TABLE otlp_traces (start_time_unix_nano TIMESTAMP_NS, duration_time_unix_nano BIGINT, "
    "trace_id VARCHAR, span_id VARCHAR, parent_span_id VARCHAR, name VARCHAR, kind INTEGER, "
    "status_code INTEGER, resource_attributes VARCHAR, span_attributes VARCHAR, events_json VARCHAR, "
    "links_json VARCHAR)"
)
INSERT = (
    f"INSERT INTO otlp_traces SELECT make_timestamp_ns(10), 10, '{TRACE}', printf('%016x', n), NULL, 'n', 1, "
    "0, '{}', '{}', '[]', '[]' FROM range(1, 2501) AS t(n)"
)


def test_a_table_of_spans_in_another_database_is_read(tmp_path: Path) -> None:
    path = database(tmp_path / "other", "CREATE TABLE notes (a INTEGER, b VARCHAR)", SPANS, INSERT)
    assert list(read(path)) == [stored(number) for number in range(1, 2501)]


def test_a_database_of_otel_desktop_viewer_is_read(tmp_path: Path) -> None:
    path = database(tmp_path / "viewer", (READERS / "otel_desktop_viewer.sql").read_text())
    first, second = sorted(read(path), key=lambda span: str(span.span_id))  # type: ignore[union-attr]
    assert first == stored(
        1,
        kind="CLIENT",
        status="ERROR",
        status_message="too slow",
        attributes={
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.input_tokens": 20,
            "list": [0.5],
            "map": {"a": True},
            "none": None,
        },
        events=[{"name": "first", "time_ns": 12, "attributes": {"gen_ai.usage.input_tokens": 20}}],
        resource={"gen_ai.request.model": "gpt-4o"},
        scope_name="shop",
        scope_version="1",
    )
    assert second == stored(2, parent_span_id=f"{1:016x}")


def test_a_bad_row_is_named_by_its_number(tmp_path: Path) -> None:
    bad = "UPDATE otlp_traces SET trace_id = NULL WHERE span_id = printf('%016x', 2001)"
    path = database(tmp_path / "other", SPANS, INSERT, bad)
    (problem,) = (found for found in read(path) if isinstance(found, Problem))
    reason = "no trace id; expected a text or an integer that is not zero"
    assert problem == Problem(f"{path} otlp_traces [2000]", reason)


def test_a_database_is_read_without_running_what_it_defines(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("trace_id\n1\n")
    view = f"CREATE VIEW spans AS FROM read_csv('{secret}')"
    assert next(read(database(tmp_path / "other", SPANS, INSERT, view))) == stored(1)
    hiding = database(tmp_path / "hiding", SPANS, "CREATE MACRO epoch_ns(x) AS 5")
    with pytest.raises(InputError, match=r'it defines a function "epoch_ns"'):
        list(read(hiding))


@pytest.mark.parametrize("statement", ["SELECT 1", "CREATE TABLE notes (a INTEGER, b VARCHAR)"])
def test_a_database_without_spans_is_refused_in_one_line(statement: str, tmp_path: Path) -> None:
    path = database(tmp_path / "other", statement)
    with pytest.raises(InputError) as caught:
        list(read(path))
    assert str(caught.value).startswith(f"{path}: a DuckDB database without a table of spans")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"\0" * 8 + b"DUCK" + b"\0" * 8, b"PAR1" + b"\0" * 40])
def test_a_broken_table_is_refused_in_one_line(content: bytes, file: Callable[[bytes], Path]) -> None:
    with pytest.raises(InputError) as caught:
        list(read(file(content)))
    assert "\n" not in str(caught.value)
    assert ": a " in str(caught.value)


def test_parquet_of_another_kind_is_refused_with_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    duckdb.execute(f"COPY (SELECT 1 AS a, 'x' AS b) TO '{path}'")
    with pytest.raises(
        InputError, match="a Parquet file without a table of spans; its columns are a, b; expected"
    ):
        list(read(path))


def test_csv_of_rows_is_read(file: Callable[[bytes], Path]) -> None:
    head = b"trace_id,span_id,name,start_ns,end_ns,attributes\n"
    rows = [f'{TRACE},{number:016x},n,10,20,"{{}}"\n'.encode() for number in range(1, 4)]
    rows[1] = rows[1].replace(b",n,", b",\xff,")
    path = file(head + b"".join(rows))
    assert list(read(path)) == [stored(1), Problem(f"{path} [1]", "not UTF-8"), stored(3)]
