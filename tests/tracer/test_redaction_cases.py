"""Values of every shape, with a secret in each place of them, and what redaction leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cases import cases, check

from spangrade.tracer.redaction import Redaction


def redacted(given: Any) -> Any:
    return {mode: Redaction(mode, ("*pin*",), key="k").value(given["value"]) for mode in ("mask", "hash")}


@pytest.mark.parametrize(("file", "place"), cases("redaction"))
def test_a_secret_is_removed_wherever_it_stands(file: Path, place: str | None) -> None:
    check(file, place, redacted)
