"""Users, tags, versions and environments become columns of sessions wherever instrumentations put them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import spangrade as public
from spangrade.converters.spans.session_attributes import ENVIRONMENTS, TAGS, USERS, VERSIONS
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}


def row(tmp_path: Path, attributes: dict[str, Any], resource: dict[str, Any] | None = None) -> dict[str, Any]:
    db = public.open(tmp_path / f"{len(list(tmp_path.iterdir()))}.duckdb")
    span = Span(
        "0" * 31 + "1", "0" * 15 + "1", None, "invoke_agent shop", "INTERNAL", 1, 2_000_000_000,
        attributes=AGENT | attributes, resource=resource or {},
    )  # fmt: skip
    with Store.open(db.path) as store:
        store.add([span])
    (found,) = db.sql("SELECT user_id, tags, agent_version, environment FROM sessions").rows()
    return found


def test_each_name_is_read(tmp_path: Path) -> None:
    for column, names, value, expected in (
        ("user_id", USERS, "ann", "ann"),
        ("tags", TAGS, ["vip", "eu"], ["vip", "eu"]),
        ("agent_version", VERSIONS, "1.2", "1.2"),
        ("environment", ENVIRONMENTS, "production", "production"),
    ):
        for name in names:
            unknown = {"user_id": None, "tags": None, "agent_version": None, "environment": None}
            assert row(tmp_path, {name: value}) == unknown | {column: expected}, name


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


@pytest.mark.parametrize(
    ("value", "tags"),
    [('["a", "b"]', ["a", "b"]), ("a, b,", ["a", "b"]), ("[a", None), (3, None), ("", None)],
)
def test_tags_may_be_texts(tmp_path: Path, value: object, tags: list[str] | None) -> None:
    assert row(tmp_path, {"tag.tags": value})["tags"] == tags


def test_a_user_is_deleted_under_each_name(tmp_path: Path) -> None:
    for name in USERS:
        row(tmp_path, {name: "ann"})
    for file in tmp_path.glob("*.duckdb"):
        assert public.open(file).delete(user="ann").sessions == 1
