"""New files are for their owner alone, whatever umask the shell has, unless another one is asked for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import command_line
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from paths import SAMPLE
from receiving import receiver

from spangrade import InputError
from spangrade.tracer.base.file_modes import umask
from spangrade.tracer.exporter import DuckDBSpanExporter
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store, spool
from spangrade.tracer.store.arrow import rows_of

pytestmark = pytest.mark.makes_databases


def spangrade(folder: Path, *arguments: str | Path, **environment: str) -> None:
    done = command_line.spangrade(*arguments, cwd=folder, **environment)
    assert done.returncode == 0, done.stderr


def modes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode))[2:]
        for path in folder.rglob("*")
    }


def everything(folder: Path, *options: str, **environment: str) -> dict[str, str]:
    """Return the modes of what import, grade, convert and delete leave."""
    spans = SAMPLE / "spans.otlp.jsonl"
    spangrade(folder, *options, "import", spans, "--db", "s.duckdb", **environment)
    spangrade(folder, *options, "grade", SAMPLE, "--db", "s.duckdb", "--out", "results", **environment)
    with Store.open(folder / "s.duckdb") as store:
        ((session,),) = store.query("SELECT min(session_id) FROM sessions")
    spangrade(folder, *options, "convert", session, "--db", "s.duckdb", "-o", "g.json", **environment)
    spangrade(folder, *options, "delete", "--session", session, "--db", "s.duckdb", **environment)
    return modes(folder)


def expected(file: str, folder: str) -> dict[str, str]:
    reports = ("results.json", "sessions.jsonl", "junit.xml", "summary.md", "report.html")
    reports += ("eval_summary.json", "evaluation_results.csv")
    files = ("s.duckdb", "g.json", *(f"results/{name}" for name in reports))
    return dict.fromkeys(files, file) | {"results": folder}


def test_commands_create_files_for_their_owner_alone(tmp_path: Path) -> None:
    assert everything(tmp_path) == expected("600", "700")


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["option", "variable"])
@pytest.mark.short_form("how", 2)
def test_an_explicit_umask_is_followed(tmp_path: Path, how: str) -> None:
    options = ("--umask", "027") if how == "option" else ()
    environment = {"SPANGRADE_UMASK": "027"} if how == "variable" else {}
    assert everything(tmp_path, *options, **environment) == expected("640", "750")


@pytest.mark.exhaustive
def test_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    everything(tmp_path)
    for name in ("s.duckdb", "g.json"):
        (tmp_path / name).chmod(0o664)
    spangrade(tmp_path, "import", SAMPLE / "spans.otlp.jsonl", "--db", "s.duckdb")
    with Store.open(tmp_path / "s.duckdb") as store:
        ((session,),) = store.query("SELECT max(session_id) FROM sessions")
    spangrade(tmp_path, "convert", session, "--db", "s.duckdb", "-o", "g.json", "--id", "other")
    spangrade(tmp_path, "delete", "--session", session, "--db", "s.duckdb")
    after = modes(tmp_path)
    assert (after["s.duckdb"], after["g.json"]) == ("664", "664")


def test_a_nonsense_umask_is_refused() -> None:
    with pytest.raises(InputError, match="umask is '9': expected three octal digits"):
        umask("9")
    with pytest.raises(InputError, match="umask is '7777'"):
        umask("7777")


@pytest.fixture
def open_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_what_an_agent_writes_is_for_its_owner_alone(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(DuckDBSpanExporter(db)))
    provider.get_tracer("t").start_span("s").end()
    span = Span("a" * 32, "b" * 16, None, "n", "CLIENT", 1, 2)
    spool.write(db, rows_of([span]))
    with Store.open(db) as store:
        store.add([span])
        found = modes(tmp_path)
    assert set(found) > {"s.duckdb", "s.duckdb.wal", "s.duckdb.spool"}
    assert {found.pop("s.duckdb.spool")} == {"700"}
    assert set(found.values()) == {"600"}


@pytest.mark.usefixtures("open_umask")
def test_what_the_receiver_writes_is_for_its_owner_alone(tmp_path: Path) -> None:
    with receiver(tmp_path / "s.duckdb"):
        found = modes(tmp_path)
    assert found.pop("s.duckdb.spool") == "700"
    assert set(found.values()) == {"600"}
