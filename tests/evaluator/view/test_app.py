"""The pages over HTTP: routes, headers, hosts and errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import SAMPLE
from serving import Served, serving

import spangrade


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("view") / "sample.duckdb"
    spangrade.open(db).grade(SAMPLE)
    return db


@pytest.fixture(scope="module")
def served(sample: Path) -> Iterator[Served]:
    with serving(sample) as one:
        yield one


@pytest.mark.parametrize("path", ["/", "/session/conversation-1"])
def test_a_page_is_served_with_a_policy_that_runs_no_inline_script(served: Served, path: str) -> None:
    answer = served.get(path)
    assert answer.status == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example:4319", "", "[::1", "10.0.0.1"]
)
def test_another_host_is_rejected(served: Served, host: str) -> None:
    answer = served.get("/", Host=host)
    assert (answer.status, "conversation" in answer.text) == (403, False)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:4319", "127.0.0.1:1", "[::1]:4319"])
def test_the_names_of_this_machine_are_accepted(served: Served, host: str) -> None:
    assert served.get("/", Host=host).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_the_pages_change_nothing(served: Served, method: str) -> None:
    assert served.get("/", method=method).status == 405
    assert served.get("/session/conversation-1", method=method).status == 405


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/session/none",
        "/session/~!",
        "/session/~~00",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
    ],
)
def test_what_does_not_exist_is_404(served: Served, path: str) -> None:
    answer = served.get(path)
    assert (answer.status, "content-security-policy" in answer.headers) == (404, True)
