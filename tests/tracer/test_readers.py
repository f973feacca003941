"""Files of spans and logs: found by content, read as far as they can be, refused in one line."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import orjson
import pytest
from paths import FIXTURES

from spangrade import InputError
from spangrade.tracer.files import read, read_otlp
from spangrade.tracer.span import LogRecord, Problem, Span

READERS = FIXTURES / "readers"
SPANS = READERS / "spans.otlp.jsonl"
FORMATS = "expected one of the formats " + ", ".join(
    point.name for point in entry_points(group="spangrade.readers")
)
WHOLE = "expected a whole JSON document, or one per line"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def export(number: int, **changes: Any) -> dict[str, Any]:
    record = {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "name": "n",
        "startTimeUnixNano": "10",
        "endTimeUnixNano": "20",
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [record | changes]}]}]}


def line(number: int, **changes: Any) -> bytes:
    return orjson.dumps(export(number, **changes)) + b"\n"


def stored(number: int) -> Span:
    return Span(TRACE, f"{number:016x}", None, "n", "INTERNAL", 10, 20)


OLD = {
    "instrumentationLibrarySpans": [
        {
            "instrumentationLibrary": {"name": "s"},
            "spans": export(1)["resourceSpans"][0]["scopeSpans"][0]["spans"],
        }
    ]
}


@pytest.mark.parametrize(
    "document",
    [
        {"resourceSpans": [OLD]},
        {"batches": [OLD]},
        {"trace": {"resourceSpans": [OLD]}},
        {"trace": {"batches": [OLD]}},
        {"result": {"resourceSpans": [OLD]}},
    ],
    ids=[
        "OTLP before 0.15",
        "Tempo",
        "Tempo, version 2",
        "Tempo, version 2 with batches",
        "Jaeger, version 3",
    ],
)
def test_names_of_older_versions_and_of_tempo_are_read(document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(orjson.dumps(document))
    assert list(read(path)) == [stored(1)._replace(scope_name="s")]


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        path = tmp_path / "recording"
        path.write_bytes(content)
        return path

    return write


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        list(read(path))
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def test_the_same_recording_is_the_same_from_json_lines_and_protobuf() -> None:
    found = list(read(SPANS))
    assert {type(record) for record in found} == {Span}
    assert len(found) == 9
    assert list(read(READERS / "spans.pb")) == found


def test_logs_are_the_same_from_json_lines_and_a_document(file: Callable[[bytes], Path]) -> None:
    source = READERS / "logs.otlp.jsonl"
    found = list(read(source))
    assert {type(record) for record in found} == {LogRecord}
    pretty = orjson.dumps(orjson.loads(source.read_bytes()), option=orjson.OPT_INDENT_2)
    assert list(read(file(pretty))) == found


PRETTY = orjson.dumps(export(1), option=orjson.OPT_INDENT_2)
MISTYPED = orjson.dumps(export(1, name="é", endTimeUnixNano=20), option=orjson.OPT_INDENT_2).replace(
    b"20", b"2O"
)


@pytest.mark.parametrize(
    ("content", "numbers"),
    [
        (line(1), [1]),
        (line(1).rstrip(), [1]),
        (line(1) + line(2), [1, 2]),
        (line(1) + b"\n \r\n" + line(2).rstrip(), [1, 2]),
        ((line(1) + line(2)).replace(b"\n", b"\r\n"), [1, 2]),
        (PRETTY, [1]),
        (b"\n" + PRETTY, [1]),
        (b"\n\n  " + PRETTY + b"\n\n", [1]),
        (PRETTY.replace(b"\n", b"\r\n"), [1]),
        (PRETTY.replace(b"  ", b""), [1]),
        (line(1).replace(b'":[', b'":\n['), [1]),
        (b"\xef\xbb\xbf" + PRETTY, [1]),
        (b"\xef\xbb\xbf" + line(1) + line(2), [1, 2]),
        (gzip.compress(PRETTY), [1]),
        (gzip.compress(line(1)) + gzip.compress(line(2)), [1, 2]),
        (gzip.compress(b"\xef\xbb\xbf" + line(1) + line(2)), [1, 2]),
        (b'{"resourceSpans":[]}', []),
        (b'\n{"resourceSpans":[]}', []),
    ],
)
def test_json_is_read_however_it_is_laid_out(
    content: bytes, numbers: list[int], file: Callable[[bytes], Path]
) -> None:
    assert list(read(file(content))) == [stored(number) for number in numbers]


def test_a_protobuf_file_with_invalid_utf_8_loses_that_span_alone(file: Callable[[bytes], Path]) -> None:
    whole = (READERS / "spans.pb").read_bytes()
    name = next(record.name for record in read(READERS / "spans.pb") if isinstance(record, Span)).encode()
    found = list(read(file(whole.replace(name, b"\xff" * len(name), 1))))
    assert [type(record) for record in found].count(Problem) == 1
    assert len(found) == 9
    binary = file(b"\x0a\x02\xff\xfe\x00")
    assert refusal(binary).startswith("binary content of another kind")


def test_gzipped_protobuf_is_read(file: Callable[[bytes], Path]) -> None:
    content = (READERS / "spans.pb").read_bytes()
    assert list(read(file(gzip.compress(content)))) == list(read(SPANS))


def test_protobuf_whose_first_bytes_look_like_json_is_read(file: Callable[[bytes], Path]) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    part = request.resource_spans.add()
    part.resource.attributes.add(key="k").value.string_value = "v" * 25
    part.scope_spans.add().spans.add(
        trace_id=bytes.fromhex(TRACE),
        span_id=bytes.fromhex(f"{1:016x}"),
        name="n",
        start_time_unix_nano=10,
        end_time_unix_nano=20,
    )
    part.scope_spans[0].scope.name = "s" * (123 - part.ByteSize() - 4)
    content = request.SerializeToString()
    assert content.startswith(b'\n{\n"')
    [found] = read(file(content))
    assert isinstance(found, Span)
    assert found.span_id == f"{1:016x}"


def test_a_bad_line_is_a_problem_and_the_others_are_read(file: Callable[[bytes], Path]) -> None:
    cut = line(4)[:50]
    path = file(line(1) + b'{"resourceSpans": bad}\n' + b"\xff\n" + line(2) + b"5\n" + line(3) + cut)
    assert list(read(path)) == [
        stored(1),
        Problem(f"{path}:2", "not JSON at byte 18: expecting value; expected one JSON document per line"),
        Problem(f"{path}:3", "not UTF-8 at byte 0; expected one JSON document per line"),
        stored(2),
        Problem(f"{path}:5", f"a single JSON value; {FORMATS}"),
        stored(3),
        Problem(f"{path}:7", "JSON cut short at byte 50; expected one JSON document per line"),
    ]


def test_a_bad_first_line_is_a_problem_and_the_others_are_read(file: Callable[[bytes], Path]) -> None:
    path = file(b'{"resourceSpans": [\n' + line(1) + line(2))
    assert list(read(path)) == [
        Problem(f"{path}:1", "JSON cut short at byte 20; expected one JSON document per line"),
        stored(1),
        stored(2),
    ]


def test_a_file_of_bad_lines_alone_is_a_problem_for_each(file: Callable[[bytes], Path]) -> None:
    path = file(b'{"a": bad}\n' * 3)
    assert [(record.where, record.dropped) for record in read(path)] == [
        (f"{path}:1", True),
        (f"{path}:2", True),
        (f"{path}:3", True),
    ]


def test_lines_of_another_kind_are_a_problem_for_each(file: Callable[[bytes], Path]) -> None:
    path = file(b'{"level": "info", "msg": "x"}\n{}\n7\n')
    assert list(read(path)) == [
        Problem(f"{path}:1", f"a JSON object with the keys level, msg; {FORMATS}"),
        Problem(f"{path}:3", f"a single JSON value; {FORMATS}"),
    ]


def test_a_record_that_cannot_be_read_is_named_by_line_and_position(file: Callable[[bytes], Path]) -> None:
    position = "resourceSpans[0].scopeSpans[0].spans[0]"
    message = "no traceId; expected 32 hexadecimal digits, not all zero"
    path = file(line(1) + line(2, traceId=""))
    assert list(read(path)) == [stored(1), Problem(f"{path}:2 {position}", message)]
    path = file(line(2, traceId=""))
    assert list(read(path)) == [Problem(f"{path} {position}", message)]


def test_half_a_surrogate_pair_is_replaced(file: Callable[[bytes], Path]) -> None:
    [found] = read(file(line(1).replace(b'"n"', rb'"\ud83d"')))
    assert found == stored(1)._replace(name="\ufffd")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", f"an empty file; {FORMATS}"),
        (b"\xef\xbb\xbf", f"an empty file; {FORMATS}"),
        (gzip.compress(b"", mtime=0), f"an empty file; {FORMATS}"),
        (bytes(range(256)), f"binary content of another kind; {FORMATS}"),
        (b"\n\x05hello", f"binary content of another kind; {FORMATS}"),
        (b"time,level\n1,info\n", f"text without a JSON object or list; {FORMATS}"),
        (b"  \n ", f"text without a JSON object or list; {FORMATS}"),
        ('{"resourceSpans":[]}'.encode("utf-16"), "UTF-16 or UTF-32 text; expected UTF-8"),
        ('{"resourceSpans":[]}'.encode("utf-16-le"), "UTF-16 or UTF-32 text; expected UTF-8"),
        ('[{"resourceSpans":[]}]'.encode("utf-16-be"), "UTF-16 or UTF-32 text; expected UTF-8"),
        ('{"resourceSpans":[]}'.encode("utf-32"), "UTF-16 or UTF-32 text; expected UTF-8"),
        ('{"resourceSpans":[]}'.encode("utf-32-be"), "UTF-16 or UTF-32 text; expected UTF-8"),
        (b'{"golden_questions": []}', f"a JSON object with the keys golden_questions; {FORMATS}"),
        (b'{"a\\nb\\ud800": 1}', f"a JSON object with the keys a\\nb\\ud800; {FORMATS}"),
        (b'{"a": bad}\n\n\n', f"not JSON at byte 6: expecting value; {WHOLE}"),
        (b'"{}"', f"text without a JSON object or list; {FORMATS}"),
        (b"[]", f"an empty JSON list; {FORMATS}"),
        (b"[5]", f"a JSON list of something else; {FORMATS}"),
        (b'[{"id": 5}]', f"a JSON list; its first item is a JSON object with the keys id; {FORMATS}"),
        (PRETTY[:100], f"JSON cut short at byte 100; {WHOLE}"),
        (
            line(1)[:70],
            f"JSON cut short at byte 70; {WHOLE}",
        ),
        (
            MISTYPED,
            f"not JSON at byte {MISTYPED.index(b'2O') + 1}: expecting ',' delimiter; {WHOLE}",
        ),
        (
            b'{"resourceSpans": "\xff"}',
            f"not UTF-8 at byte 19; {WHOLE}",
        ),
        (
            b"[" * 100_000 + b"]" * 100_000,
            f"JSON nested too deeply; {WHOLE}",
        ),
        (
            b'{"a":' * 100_000,
            f"JSON nested too deeply; {WHOLE}",
        ),
        (
            b"[\n" * 100_000,
            f"JSON nested too deeply; {WHOLE}",
        ),
    ],
)
def test_a_file_of_another_kind_is_refused_in_one_line(
    content: bytes, message: str, file: Callable[[bytes], Path]
) -> None:
    assert refusal(file(content)) == message


def test_a_number_of_thousands_of_digits_is_refused(file: Callable[[bytes], Path]) -> None:
    assert refusal(file(b"[" + b"9" * 5000 + b"]")).startswith("JSON with a number that is too long")


def test_gzip_that_is_cut_short_gives_the_lines_before(file: Callable[[bytes], Path]) -> None:
    content = b"".join(line(number, name=os.urandom(500).hex()) for number in range(1, 400))
    path = file(gzip.compress(content)[:-100_000])
    *found, last = read(path)
    assert len(found) > 100
    assert {type(record) for record in found} == {Span}
    assert isinstance(last, Problem)
    assert last.where == f"{path}:{len(found) + 1}"
    assert last.message.startswith("a broken gzip file (Compressed file ended before")


@pytest.mark.parametrize("content", [gzip.compress(PRETTY)[:-20], b"\x1f\x8b", b"\x1f\x8b" + b"rubbish" * 9])
def test_a_gzipped_document_that_is_broken_is_refused(content: bytes, file: Callable[[bytes], Path]) -> None:
    assert refusal(file(content)).startswith("a broken gzip file (")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path) == "a directory; expected a file of recorded spans"
    assert refusal(tmp_path / "missing") == "no such file"
    assert refusal(tmp_path / ("x" * 300)) == "cannot read: File name too long"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read all")
def test_a_file_without_permission_is_refused(file: Callable[[bytes], Path]) -> None:
    path = file(line(1))
    path.chmod(0)
    assert refusal(path) == "cannot read: Permission denied"


def test_json_lines_are_read_one_by_one(file: Callable[[bytes], Path]) -> None:
    path = file(b"".join(line(number, name="n" * 5000) for number in range(1, 4000)))
    zipped = path.with_suffix(".gz")
    zipped.write_bytes(gzip.compress(path.read_bytes(), 1))
    for one in (path, zipped):
        next(read(one))
        tracemalloc.start()
        count = sum(1 for _ in read(one))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == 3999
        assert peak < 2_000_000
    assert path.stat().st_size > 20_000_000


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("beginning", "end"),
    [
        (b"", b""),
        (b"{", b""),
        (b"[", b""),
        (line(1), b""),
        (line(1) + line(2), b"\n" + line(3)),
    ],
)
@pytest.mark.short_form("beginning", 2)
def test_blanks_are_not_kept(beginning: bytes, end: bytes, tmp_path: Path) -> None:
    path = tmp_path / "blanks.gz"
    with gzip.open(path, "wb", 1) as file:
        file.write(beginning)
        for _ in range(200):
            file.write(b" " * 1_000_000)
        file.write(end)
    tracemalloc.start()
    with suppress(InputError):
        assert len([one for one in read(path) if isinstance(one, Span)]) == (beginning + end).count(b"\n") - (
            end != b""
        )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150_000_000  # a broken text of 8 MB takes many times its size


def test_a_pipe_is_read(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"\xef\xbb\xbf" + line(1) + line(2))
    os.close(writing)
    assert list(read(Path(f"/dev/fd/{reading}"))) == [stored(1), stored(2)]
    os.close(reading)


def test_a_document_of_another_format_is_left_to_other_readers() -> None:
    assert [read_otlp(document) for document in ({}, [], 5, None, "x", b"", {"spans": []})] == [None] * 7
