"""The exporter: what it stores, and what it does when it cannot."""

import json
import logging
import os
import subprocess
import sys
import threading
import time

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    Link,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

import spangrade
from spangrade import tracer
from spangrade.tracer.exporter import DuckDBSpanExporter, SessionSpanProcessor, stored_spans
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.spool import drain, folder_of, waiting

HOLD = """
import sys
from spangrade.tracer.store import Store
with Store.open(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def provider():
    provider = TracerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False)
    yield provider
    provider.shutdown()


@pytest.fixture
def finished(provider):
    """Makes finished spans."""
    memory = InMemorySpanExporter()

    def make(*names):
        provider.add_span_processor(SimpleSpanProcessor(memory))
        for name in names:
            provider.get_tracer("test").start_span(name).end()
        return memory.get_finished_spans()

    return make


def names_in(path):
    with Store.open(path, read_only=True, wait_s=30) as store:
        return [
            name for (name,) in store.connection.execute("SELECT name FROM spans ORDER BY name").fetchall()
        ]


@pytest.fixture
def another_process(tmp_path):
    """A function that lets another process hold the database until the test says `let_go()`."""
    holders = []

    def hold(path):
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        holders.append(holder)
        assert holder.stdout.readline() == "held\n"

        def let_go():
            holder.stdin.write("\n")
            holder.stdin.flush()

        return let_go

    yield hold
    for holder in holders:
        holder.kill()
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()


def test_a_span_is_stored_with_all_it_says(provider, finished):
    linked = SpanContext(
        7, 8, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("k", "v")])
    )
    span_tracer = provider.get_tracer("scope", "1.2")
    finished()
    parent = span_tracer.start_span("parent")
    child = span_tracer.start_span(
        "child",
        context=set_span_in_context(parent),
        kind=SpanKind.CLIENT,
        attributes={"t": ("a", "b"), "n": 1, "f": float("nan"), "y": True},
        links=[Link(linked, {"l": 1})],
        start_time=100,
    )
    child.add_event("e", {"x": float("inf")}, timestamp=150)
    child.set_status(Status(StatusCode.ERROR, "went wrong"))
    child.end(200)
    (stored,) = stored_spans(finished())
    context = child.get_span_context()
    assert stored == Span(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_span_id=f"{parent.get_span_context().span_id:016x}",
        name="child",
        kind="CLIENT",
        start_ns=100,
        end_ns=200,
        status="ERROR",
        status_message="went wrong",
        attributes={"t": ["a", "b"], "n": 1, "f": "NaN", "y": True},
        events=[{"name": "e", "time_ns": 150, "attributes": {"x": "Infinity"}}],
        links=[{"trace_id": f"{7:032x}", "span_id": f"{8:016x}", "attributes": {"l": 1}}],
        resource={"service.name": "shop"},
        scope_name="scope",
        scope_version="1.2",
    )


def test_text_that_utf_8_cannot_write_costs_no_span(tmp_path, provider, finished):
    odd = "half a pair \ud800, a zero \x00"
    finished()
    span = provider.get_tracer("test").start_span(odd, attributes={odd: odd})
    span.add_event(odd, {odd: odd})
    span.set_status(Status(StatusCode.ERROR, odd))
    span.end()
    exporter = DuckDBSpanExporter(tmp_path / "spans.duckdb")
    assert exporter.export(finished()) is SpanExportResult.SUCCESS
    assert names_in(exporter.db) == ["half a pair �, a zero \x00"]


def test_spans_are_in_the_database_and_the_file_is_free_after_each_batch(tmp_path, finished, another_process):
    db = tmp_path / "spans.duckdb"
    exporter = DuckDBSpanExporter(db)
    spans = finished("a", "b")
    assert exporter.export(spans) is SpanExportResult.SUCCESS
    another_process(db)()
    assert names_in(db) == ["a", "b"]


def test_a_batch_waits_while_another_process_holds_the_database(tmp_path, finished, another_process):
    db = tmp_path / "spans.duckdb"
    let_go = another_process(db)
    exporter = DuckDBSpanExporter(db, lock_timeout_s=30)
    spans, results = finished("a"), []
    writer = threading.Thread(target=lambda: results.append(exporter.export(spans)))
    writer.start()
    let_go()
    writer.join(30)
    assert (results, exporter.dropped, names_in(db)) == ([SpanExportResult.SUCCESS], 0, ["a"])


def test_a_database_held_for_long_costs_one_wait_and_no_span(
    tmp_path, finished, another_process, monkeypatch
):
    db = tmp_path / "spans.duckdb"
    let_go = another_process(db)
    exporter = DuckDBSpanExporter(db)
    spans = finished("a", "b", "c")
    waits, wait, here = [], threading.Event.wait, threading.get_ident()

    def counted(event, timeout=None):
        if threading.get_ident() == here:  # a thread that another test left waits, too
            waits.append(timeout)
        return wait(event, timeout)

    monkeypatch.setattr(threading.Event, "wait", counted)
    began = time.monotonic()
    assert exporter.export(spans[:1]) is SpanExportResult.SUCCESS
    assert time.monotonic() - began >= 1
    assert waits
    waits.clear()
    assert exporter.export(spans[1:2]) is SpanExportResult.SUCCESS
    assert waits == []
    monkeypatch.undo()
    assert len(waiting(db)) == 2
    let_go()
    patient = DuckDBSpanExporter(db, lock_timeout_s=30)
    assert patient.export(spans[2:]) is SpanExportResult.SUCCESS
    assert (exporter.dropped, names_in(db), waiting(db)) == (0, ["a", "b", "c"], [])


def test_a_file_that_is_no_database_costs_spans_and_one_warning_a_minute(tmp_path, finished, caplog):
    db = tmp_path / "notes.txt"
    db.write_text("no database" * 1000)
    exporter = DuckDBSpanExporter(db)
    spans = finished("a")
    with caplog.at_level(logging.WARNING, "spangrade"):
        assert [exporter.export(spans) for _ in range(3)] == [SpanExportResult.FAILURE] * 3
    assert exporter.dropped == 3
    assert len(caplog.records) == 1
    assert db.read_text() == "no database" * 1000


def test_a_shut_down_exporter_waits_no_more(tmp_path, finished, another_process):
    db = tmp_path / "spans.duckdb"
    another_process(db)
    exporter = DuckDBSpanExporter(db, lock_timeout_s=60)
    spans = finished("a")
    writer = threading.Thread(target=exporter.export, args=(spans,))
    writer.start()
    exporter.shutdown()
    writer.join(30)
    assert not writer.is_alive()
    assert (len(waiting(db)), exporter.dropped) == (1, 0)


def test_a_spool_that_cannot_be_written_costs_counted_spans(tmp_path, finished, another_process, caplog):
    db = tmp_path / "spans.duckdb"
    another_process(db)
    folder_of(db).write_text("in the way")
    exporter = DuckDBSpanExporter(db, lock_timeout_s=0)
    assert exporter.export(finished("a", "b")) is SpanExportResult.FAILURE
    assert exporter.dropped == 2
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        f"2 spans were not stored in {db} (2 in all)"
    ]


@pytest.mark.exhaustive
def test_four_processes_that_write_at_once_lose_nothing_and_keep_nothing_twice(tmp_path):
    db = tmp_path / "spans.duckdb"
    script = """
import sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from spangrade.tracer.exporter import DuckDBSpanExporter
provider = TracerProvider()
exporter = DuckDBSpanExporter(sys.argv[1], lock_timeout_s=0.2)
provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=4096, max_export_batch_size=50))
for number in range(500):
    provider.get_tracer("t").start_span(f"{sys.argv[2]}-{number:03}").end()
provider.shutdown()
sys.exit(exporter.dropped)
"""
    writers = [subprocess.Popen([sys.executable, "-c", script, db, str(number)]) for number in range(4)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0, 0]
    with Store.open(db) as store:
        drain(store)
    assert names_in(db) == [f"{writer}-{number:03}" for writer in range(4) for number in range(500)]


def test_many_threads_store_every_span_once(tmp_path, provider):
    db = tmp_path / "spans.duckdb"
    processor = BatchSpanProcessor(DuckDBSpanExporter(db), max_queue_size=4096, max_export_batch_size=64)
    provider.add_span_processor(processor)

    def work(thread):
        for number in range(100):
            provider.get_tracer("t").start_span(f"{thread}-{number:02}").end()

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    provider.force_flush()
    assert names_in(db) == sorted(f"{thread}-{number:02}" for thread in range(4) for number in range(100))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform cannot fork")
def test_a_forked_child_stores_its_spans_too(tmp_path):
    script = """
import os, sys
from spangrade.tracer import configure, turn
provider = configure(db=sys.argv[1])
with turn("before"):
    pass
provider.force_flush()
if not (child := os.fork()):
    with turn("in the child"):
        pass
    provider.force_flush()
    os._exit(0)
os.waitpid(child, 0)
with turn("after"):
    pass
"""
    db = tmp_path / "spans.duckdb"
    subprocess.run([sys.executable, "-W", "ignore", "-c", script, db], check=True, timeout=60)
    with Store.open(db, read_only=True) as store:
        rows = store.connection.execute("SELECT attributes FROM spans ORDER BY start_ns").fetchall()
    assert [json.loads(row)["spangrade.turn.input"] for (row,) in rows] == ["before", "in the child", "after"]


def test_a_librarys_own_spans_belong_to_the_session_they_start_in(provider):
    memory = InMemorySpanExporter()
    provider.add_span_processor(SessionSpanProcessor())
    provider.add_span_processor(SimpleSpanProcessor(memory))
    library = provider.get_tracer("openai")
    with library.start_as_current_span("request"), tracer.session("c", question_id="q"):
        with library.start_as_current_span("root"), library.start_as_current_span("child"):
            pass
        library.start_span("named", attributes={"gen_ai.conversation.id": "own"}).end()
    library.start_span("outside").end()
    with tracer.session() as made_up:
        library.start_span("first").end()
        library.start_span("its own", attributes={"gen_ai.conversation.id": "own"}).end()
    session = {"gen_ai.conversation.id": "c", "spangrade.session.id": "c"}
    assert {span.name: dict(span.attributes) for span in memory.get_finished_spans()} == {
        "child": session,
        "root": {**session, "spangrade.question_id": "q"},
        "named": {**session, "spangrade.question_id": "q"},
        "request": {},
        "outside": {},
        "first": {"gen_ai.conversation.id": made_up.conversation_id},
        "its own": {"gen_ai.conversation.id": "own"},
    }


@pytest.mark.parametrize("when", ["with the span", "after its start"])
def test_what_the_application_gives_its_session_comes_before_what_a_library_records(tmp_path, provider, when):
    db = tmp_path / "spans.duckdb"
    provider.add_span_processor(SessionSpanProcessor())
    provider.add_span_processor(SimpleSpanProcessor(DuckDBSpanExporter(db)))
    ids = {"gen_ai.conversation.id": "library", "session.id": "library", "openinference.span.kind": "AGENT"}
    others = {"gen_ai.agent.version": "0", "user.id": "nobody", "enduser.id": "nobody"}
    for number in (1, 2):
        with tracer.session("MY-CHAT", user="u-1", tags=["beta"], version="2"):
            first = ids | others if when == "with the span" else others
            span = provider.get_tracer("library").start_span(f"run {number}", attributes=first)
            span.set_attributes(ids)
            span.end()
    sessions = spangrade.open(db).sessions()
    assert [(s.session_id, s.user_id, s.tags, s.agent_version) for s in sessions] == [
        ("MY-CHAT", "u-1", ("beta",), "2")
    ]
