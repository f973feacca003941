"""Users, tags, versions, prompts, environments: columns of sessions wherever instrumentations put them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recordings import observed

import spangrade as public
from spangrade.converters.spans.session_attributes import ENVIRONMENTS, TAGS, USERS, VERSIONS
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}


def span(number: int, attributes: dict[str, Any], resource: dict[str, Any] | None = None) -> Span:
    """Return the one span of a trace, which is a session."""
    return Span(
        f"{number:032x}", f"{number:016x}", None, "invoke_agent shop", "INTERNAL", number, 2_000_000_000,
        attributes=AGENT | attributes, resource=resource or {},
    )  # fmt: skip


def rows(path: Path, *spans: Span) -> list[dict[str, Any]]:
    """Return the users, tags, versions and environments of the sessions of spans, in order of their start."""
    db = public.open(path)
    with Store.open(db.path) as store:
        store.add(spans)
    query = "SELECT user_id, tags, agent_version, environment FROM sessions ORDER BY started_at, session_id"
    return list(db.sql(query).rows())


def row(tmp_path: Path, attributes: dict[str, Any], resource: dict[str, Any] | None = None) -> dict[str, Any]:
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.duckdb"
    (found,) = rows(path, span(1, attributes, resource))
    return found


def test_each_name_is_read(tmp_path: Path) -> None:
    cases = [
        (name, column, value)
        for column, names, value in (
            ("user_id", USERS, "ann"),
            ("tags", TAGS, ["vip", "eu"]),
            ("agent_version", VERSIONS, "1.2"),
            ("environment", ENVIRONMENTS, "production"),
        )
        for name in names
    ]
    found = rows(
        tmp_path / "s.duckdb",
        *(span(number, {name: value}) for number, (name, _, value) in enumerate(cases, 1)),
    )
    unknown = {"user_id": None, "tags": None, "agent_version": None, "environment": None}
    assert [(name, values) for (name, _, _), values in zip(cases, found, strict=True)] == [
        (name, unknown | {column: value}) for name, column, value in cases
    ]


def test_the_conventions_come_first_and_the_span_before_its_resource(tmp_path: Path) -> None:
    attributes = {
        "user.id": "ann",
        "langfuse.user.id": "ben",
        "gen_ai.agent.version": "3",
        "langfuse.version": "2",
        "langfuse.environment": "staging",
    }
    resource = {"deployment.environment.name": "production", "service.version": "1"}
    assert row(tmp_path, attributes, resource) == {
        "user_id": "ann",
        "tags": None,
        "agent_version": "3",
        "environment": "staging",
    }
    assert row(tmp_path, {}, resource) == {
        "user_id": None,
        "tags": None,
        "agent_version": "1",
        "environment": "production",
    }


@pytest.mark.parametrize(("kind", "expected"), [("TOOL", "eu"), ("CHAIN", "eu"), ("LLM", "eu"), ("X", None)])
def test_the_environment_of_a_resource_counts_on_the_agents_spans(kind: str, expected: str | None) -> None:
    resource = {"deployment.environment.name": "eu"}
    span = observed({"openinference.span.kind": kind, "tool.name": "find"}, resource=resource)
    assert (span.kind == "other", span.environment) == (kind == "X", expected)


@pytest.mark.parametrize(
    ("value", "tags"),
    [('["a", "b"]', ["a", "b"]), ("a, b,", ["a", "b"]), ("[a", None), (3, None), ("", None)],
)
@pytest.mark.short_form("value", 3)
def test_tags_may_be_texts(tmp_path: Path, value: object, tags: list[str] | None) -> None:
    assert row(tmp_path, {"tag.tags": value})["tags"] == tags


@pytest.mark.exhaustive
def test_a_user_is_deleted_under_each_name(tmp_path: Path) -> None:
    db = public.open(tmp_path / "s.duckdb")
    rows(
        tmp_path / "s.duckdb",
        *(span(number, {name: f"user of {name}"}) for number, name in enumerate(USERS, 1)),
    )
    for name in USERS:
        assert db.delete(user=f"user of {name}").sessions == 1, name
    assert db.list_sessions().rows() == []


def test_prompts_are_read_as_each_registry_names_them(tmp_path: Path) -> None:
    cases = {
        "shop@4f2a": {"spangrade.prompt": "shop@4f2a"},
        "greet": {"gen_ai.prompt.name": "greet"},
        "movie-critic@3": {
            "langfuse.observation.prompt.name": "movie-critic",
            "langfuse.observation.prompt.version": 3,
        },
        "joke@2": {"traceloop.prompt.key": "joke", "traceloop.prompt.version": 2},
        "v7": {"llm.prompt_template.version": "v7"},
        "p1@5": {"prompt_id": "p1", "prompt_version": "5"},
        "rag@9a1": {"langsmith.metadata.lc_hub_repo": "rag", "langsmith.metadata.lc_hub_commit_hash": "9a1"},
        "support@12": {"mlflow.linkedPrompts": '[{"name": "support", "version": "12"}, {}, "text"]'},
        "router@4": {
            "mlflow.traceTag.mlflow.linkedPrompts": '"[{\\"name\\": \\"router\\", \\"version\\": 4}]"'
        },
    }
    db = public.open(tmp_path / "s.duckdb")
    with Store.open(db.path) as store:
        store.add(span(number, attributes) for number, attributes in enumerate(cases.values(), 1))
    found = db.sql("SELECT prompts FROM sessions ORDER BY started_at, session_id").rows()
    assert [row["prompts"] for row in found] == [[prompt] for prompt in cases]


def test_a_service_has_a_version_in_every_dialect(tmp_path: Path) -> None:
    openinference = {"openinference.span.kind": "AGENT", "input.value": "Hi"}
    recorded = span(1, openinference, {"service.version": "1.4"})
    for name in AGENT:
        del recorded.attributes[name]  # type: ignore[attr-defined]
    assert rows(tmp_path / "s.duckdb", recorded)[0]["agent_version"] == "1.4"


IDS = {
    "conventions": (AGENT, "gen_ai.conversation.id"),
    "openinference": ({"openinference.span.kind": "AGENT"}, "session.id"),
    "traceloop": (AGENT | {"traceloop.span.kind": "agent"}, "traceloop.association.properties.session_id"),
    "langsmith": ({"langsmith.span.kind": "chain"}, "langsmith.metadata.thread_id"),
    "langfuse": ({"langfuse.observation.type": "agent"}, "langfuse.session.id"),
    "application": (AGENT | {"gen_ai.conversation.id": ""}, "spangrade.session.id"),
}
PLACEHOLDERS = [
    None,
    "",
    " ",
    "None",
    "null",
    "undefined",
    "NaN",
    "nil",
    "<nil>",
    " none\n",
    "[object Object]",
]
PLACEHOLDERS += ["00000000-0000-0000-0000-000000000000", "0" * 32, float("nan"), True]


@pytest.mark.parametrize("attributes", IDS.values(), ids=IDS)
def test_a_placeholder_is_no_id_and_a_number_is_its_text(attributes: tuple[dict[str, Any], str]) -> None:
    given, name = attributes
    assert {repr(value): observed(given | {name: value}).conversation_id for value in PLACEHOLDERS} == {
        repr(value): None for value in PLACEHOLDERS
    }
    ids = {
        42: "42",
        0: "0",
        7.5: "7.5",
        "0": "0",
        "default": "default",
        "nonesuch": "nonesuch",
        "None-1": "None-1",
    }
    assert {value: observed(given | {name: value}).conversation_id for value in ids} == ids


def test_an_id_counts_where_another_attribute_has_a_placeholder() -> None:
    given = {"gen_ai.conversation.id": "None", "session.id": 42}
    assert observed(AGENT | given).conversation_id == "42"
    assert observed({"openinference.span.kind": "AGENT"} | given).conversation_id == "42"
