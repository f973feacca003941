"""Entry points: found by group, in one order, refused with the distribution that brings them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from spangrade import InputError
from spangrade.tracer.base.plugins import load_plugins, plugins

GROUP = "spangrade.tests"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that installs a distribution with entry points in GROUP."""

    def installed(name: str, **points: str) -> None:
        folder = tmp_path / f"{name}-1.2.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        lines = "".join(f"{key} = {value}\n" for key, value in points.items())
        (folder / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")

    (tmp_path / "broken_part.py").write_text("raise RuntimeError('no licence')\n")
    (tmp_path / "exiting_part.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    return installed


def test_the_entry_points_of_all_distributions_are_loaded_in_the_order_of_their_names(
    install: Callable[..., None],
) -> None:
    install("zebra", b="math:tau", d="math:inf")
    install("aardvark", c="math:e", a="math:pi")
    import math

    assert list(load_plugins(GROUP, float).items()) == [
        ("a", math.pi),
        ("b", math.tau),
        ("c", math.e),
        ("d", math.inf),
    ]


def test_a_group_without_entry_points_is_empty() -> None:
    assert load_plugins(GROUP) == {}


def test_one_entry_point_loads_beside_another_that_is_broken(install: Callable[..., None]) -> None:
    install("acme", bad="broken_part:x", good="types:SimpleNamespace")
    bad, good = plugins(GROUP)
    assert (bad.name, good.name, good.load()) == ("bad", "good", SimpleNamespace)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module:x", "cannot be loaded: No module named 'no_such_module'"),
        ("math:no_such_name", "cannot be loaded: module 'math' has no attribute 'no_such_name'"),
        ("broken_part:x", "cannot be loaded: no licence"),
        ("exiting_part:x", "cannot be loaded: SystemExit: 0"),
        ("math:sqrt", "expected a float, found builtin_function_or_method"),
    ],
)
def test_a_broken_entry_point_is_named_with_its_group_and_distribution(
    install: Callable[..., None], value: str, reason: str
) -> None:
    install("acme", part=value)
    with pytest.raises(InputError) as caught:
        load_plugins(GROUP, float)
    assert str(caught.value) == (
        f'entry point "part" ({value}) in spangrade.tests, installed by acme 1.2: {reason}'
    )


def test_two_entry_points_of_one_name_are_refused(install: Callable[..., None]) -> None:
    install("acme", part="math:pi")
    install("other", part="math:tau")
    with pytest.raises(InputError, match=r"\(math:tau\).* other 1.2: another entry point has the same name"):
        load_plugins(GROUP)
