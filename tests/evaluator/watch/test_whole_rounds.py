"""All that rounds of grading store, send and count, in `tests/cases/watched`: a webhook, OTLP and scores.

`WRITE_CASES=1 pytest` of this file writes it, to be read in the diff.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from case_database import sessions
from cases import FOLDER, compare
from google.protobuf.json_format import MessageToDict
from made_once import new_database
from prometheus_client import CollectorRegistry, generate_latest
from sinks import Hook, Sink, hook, http_sink
from watching import MINUTE, Clock, prepared_by

from spangrade import __version__
from spangrade.evaluator.apps.server.grade.options import WatchOptions, WebhookFormat
from spangrade.evaluator.apps.server.grade.prometheus import TotalsCollector
from spangrade.evaluator.apps.server.grade.send_scores import Sender
from spangrade.evaluator.apps.server.grade.telemetry import Telemetry
from spangrade.evaluator.apps.server.grade.watch import Watch, WatchSummary
from spangrade.evaluator.apps.server.grade.webhook import Webhook
from spangrade.evaluator.derive.sync.up_to_date import DatabaseFile
from spangrade.evaluator.grading.alerts import AlertRule
from spangrade.evaluator.reports.html.links import ServerLinks
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

LATER = 1_769_000_000 * 10**9  # a day after the last of them
GATES = ["cost<=0.00124", "tool_success_rate>=0.5", "latency_metrics"]
TABLES = (
    "watched",
    "watch_progress",
    "deliveries",
    "watch_totals",
    "watch_spending",
    "alarms",
    "alarm_sessions",
    "sent_scores",
)
SOME = re.compile(r"\bconv-(0|18|27|63|90)\b")  # of whose scores all is compared
ALERTS = tuple(
    AlertRule.model_validate(one)
    for one in (
        {"when": "passed < 0.99", "window": "1d", "min_sessions": 3, "by": "service"},
        {"when": "cost > 0.0012", "window": "30d", "min_sessions": 3},
        {"when": "silent for 12h"},
    )
)


def words(text: str) -> str:
    """Return a text without what differs from run to run."""
    text = re.sub(r"\b[0-9a-f]{32}\b(?=[^\n]{0,40})", lambda found: known(found[0]), text)
    return re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", text).replace(__version__, "VERSION")


def known(identifier: str) -> str:
    """Return the id of a trace, which is as in the cases; that of a run is another each time."""
    return identifier if identifier.startswith("000000") else "RUN"


def add(db: Path, made: list[list[Span]]) -> None:
    with Store.open(db) as store:
        store.add(span for spans in made for span in spans)


def prometheus(summary: WatchSummary) -> list[str]:
    registry = CollectorRegistry()
    registry.register(TotalsCollector(lambda: summary.totals, lambda: summary.failures))
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]


def tables(db: Path) -> dict[str, list[str]]:
    found = {}
    with Store.open(db, read_only=True) as store:
        there = {name for (name,) in store.query("SELECT table_name FROM duckdb_tables()")}
        for table in TABLES:
            if table in there:
                rows = store.query(f"SELECT * FROM {table} ORDER BY ALL")
                lines = sorted(words(" | ".join(map(str, row))) for row in rows)
                found[table] = [one for one in lines if table != "sent_scores" or SOME.search(one)]
    return found


def messages(receiving: Hook) -> list[Any]:
    """Return what came in, but for the signature, in the order of the sessions."""
    found = [
        [words(headers["content-type"]), json.loads(words(body.decode()))]
        for headers, body in receiving.requests
    ]
    return sorted(found, key=json.dumps)


def exported(sink: Sink) -> dict[str, Any]:
    def shown(one: Any) -> Any:
        return json.loads(words(json.dumps(MessageToDict(one), sort_keys=True)))

    return {
        "scopes": sorted(sink.scopes),
        "services": sorted(sink.services),
        "number of logs": len(sink.logs),
        "logs": sorted((shown(one) for one in sink.logs if SOME.search(str(one))), key=json.dumps),
        "metrics": {name: shown(one) for name, one in sorted(sink.metrics.items())},
    }


OPTIONS: dict[str, dict[str, Any]] = {
    "each": {"notify_since": "1970-01-01", "public_url": "https://spans.example.com/x/"},
    "slack": {"notify_since": "1970-01-01", "webhook_format": WebhookFormat.SLACK},
    "alerts": {"notify_since": "1970-01-01", "public_url": "https://spans.example.com", "alerts": ALERTS},
    "since": {"notify_since": "2026-01-05"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_rounds_store_send_and_count_what_they_are_to(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rounds; the webhook fails at first. Between them ten sessions arrive, and more of one."""
    options = WatchOptions(links=ServerLinks(), idle_s="5m", **OPTIONS[name])
    db = new_database(tmp_path / "s.duckdb")
    made = sessions()[::9]
    add(db, made[:10])
    clock = Clock(LATER)
    found: dict[str, Any] = {}
    with hook(lambda number: 500 if number == 1 else 204) as receiving, http_sink() as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
        with_otlp = name == "each"
        watching = Watch(
            db,
            prepared_by(gates=GATES),
            options,
            webhook=Webhook(receiving.url, b"0123456789abcdef", pause_s=0.0),
            telemetry=Telemetry() if with_otlp else None,
            scores=Sender(DatabaseFile(db), sink.endpoint, "scores", clock) if with_otlp else None,
            clock=clock,
            steady=clock,
        )
        for turn in ("first", "second", "third"):
            summary = watching.round()
            found[turn] = [str(summary), summary.deferred, summary.alarms, summary.first_due_ns]
            clock.now_ns += 30 * MINUTE
            if turn == "first":
                add(db, made[10:])
                clock.now_ns += 30 * MINUTE
        watching.close()
        sent = {"webhook": messages(receiving), **(exported(sink) if with_otlp else {})}
        stored = tables(db)
    endpoint = sink.endpoint
    text = json.dumps(
        {"rounds": found, "sent": sent, "tables": stored, "metrics": {"text": prometheus(summary)}}
    )
    compare(FOLDER / "watched" / f"{name}.json", json.loads(text.replace(endpoint, "ENDPOINT")))
