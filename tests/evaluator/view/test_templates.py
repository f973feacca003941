"""Compiled templates are kept in the user's cache folder, if it is the user's alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from spangrade.evaluator.reports.html.rendering import environment

TEMPLATE = "report.html"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SPANGRADE_CACHE_DIR", str(tmp_path))
    environment.cache_clear()
    yield tmp_path
    environment.cache_clear()


def test_a_template_is_compiled_once_for_all_processes(cache: Path) -> None:
    environment().get_template(TEMPLATE)
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("*.cache")}
    assert kept
    assert {path.parent.stat().st_mode & 0o077 for path in kept} == {0}
    environment.cache_clear()
    assert environment().get_template(TEMPLATE).name == TEMPLATE
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.cache")} == kept


def test_a_folder_that_others_may_write_is_not_read(cache: Path) -> None:
    environment().get_template(TEMPLATE)
    (folder,) = cache.iterdir()
    folder.chmod(0o777)
    environment.cache_clear()
    assert environment().bytecode_cache is None


def test_damaged_and_missing_caches_are_compiled_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment().get_template(TEMPLATE)
    for path in cache.rglob("*.cache"):
        path.write_bytes(b"damaged")
    environment.cache_clear()
    assert environment().get_template(TEMPLATE).name == TEMPLATE
    monkeypatch.setenv("SPANGRADE_CACHE_DIR", os.devnull)
    environment.cache_clear()
    assert environment().get_template(TEMPLATE).name == TEMPLATE
