"""Golden questions, each value of which is right, nearly right and wrong by turns: read, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cases import cases, check

from spangrade import InputError
from spangrade.converters.datasets.golden import golden_of


def read(given: Any) -> Any:
    try:
        dataset = golden_of(given, "golden.json")
    except InputError as error:
        return {"refused": str(error).splitlines()}
    return dataset.model_dump(mode="json", exclude_defaults=True)


@pytest.mark.parametrize(("file", "place"), cases("datasets"))
def test_a_question_is_read_as_it_is_written_or_refused(file: Path, place: str | None) -> None:
    check(file, place, read)
