"""Session ids in attributes of the user's choice."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import spangrade
from paths import RECORDED, SAMPLE

from spangrade.evaluator.derive import load, update
from spangrade.evaluator.derive.settings import set_session_from, settings_of
from spangrade.evaluator.derive.sync.intake import import_batches, start_import
from spangrade.evaluator.derive.sync.observed import session_id_of
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store


def agent(trace: str, span: str, parent: str | None = None, **changes: Any) -> Span:
    made = Span(trace, span, parent, "invoke_agent a", "INTERNAL", 1, 2)
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
    return made._replace(attributes=attributes | changes.pop("attributes", {}), **changes)


def ids(store: Store) -> list[str]:
    update(store)
    return sorted(session.session_id for session in load(store))


SPANS = [
    agent("1" * 32, "a" * 16, attributes={"gen_ai.conversation.id": "dialect-id"}),
    agent("1" * 32, "b" * 16, "a" * 16, attributes={"app.chat": "chat-id"}),
    agent("2" * 32, "a" * 16, resource={"app.chat": "chat-id"}),
    agent("3" * 32, "a" * 16, attributes={"gen_ai.conversation.id": "dialect-id"}),
]


def test_the_attribute_on_any_span_of_a_trace_comes_before_the_dialects_id(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        set_session_from(store, ["app.chat"])
        store.add(SPANS)
        assert ids(store) == ["chat-id", "dialect-id"]
        (session,) = load(store, "chat-id")
        assert {trace for turn in session.turns for trace in turn.trace_ids} == {"1" * 32, "2" * 32}


def test_another_setting_derives_again_and_the_same_setting_does_not(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(SPANS)
        assert ids(store) == ["2" * 32, "dialect-id"]
        set_session_from(store, ["app.chat"])
        assert ids(store) == ["chat-id", "dialect-id"]
        set_session_from(store, ["app.chat"])
        assert update(store) == 0
        set_session_from(store, [])
        assert ids(store) == ["2" * 32, "dialect-id"]


def test_later_imports_keep_the_setting(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        set_session_from(store, ["app.chat", "app.thread"])
    with Store.open(tmp_path / "s.duckdb") as store:
        assert settings_of(store).session_from == ("app.chat", "app.thread")
        store.add(SPANS)
        assert ids(store) == ["chat-id", "dialect-id"]


def test_import_uses_the_setting_that_another_process_makes_while_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    intake, parts = start_import(path, [SAMPLE / "spans.otlp.jsonl"])
    with Store.open(path) as store:
        set_session_from(store, ["service.name"])
    imported = import_batches(partial(Store.open, path), intake, parts)
    with Store.open(path) as store:
        assert ids(store) == ["customer_service"]
    assert imported.sessions == 1


@pytest.mark.parametrize(("value", "expected"), [("x", "x"), (7, "7"), ("", None), (True, None), ([1], None)])
def test_an_id_is_a_text_or_a_whole_number(value: object, expected: str | None) -> None:
    assert session_id_of(agent("1", "2", attributes={"app.chat": value}), ["other", "app.chat"]) == expected


@pytest.mark.exhaustive
def test_import_joins_a_model_clients_traces_by_an_attribute_of_their_resource(tmp_path: Path) -> None:
    def run(*arguments: str) -> Any:
        done = spangrade(*arguments, "--format", "json", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    recording = str(RECORDED / "openai_genai.otlp.jsonl")
    assert run("import", recording, "--session-from", "telemetry.sdk.language")["sessions"] == 1
    assert [session["session_id"] for session in run("sessions")] == ["python"]
    assert run("import", recording, "--session-from", "")["sessions"] > 0
    assert "python" not in [session["session_id"] for session in run("sessions")]
