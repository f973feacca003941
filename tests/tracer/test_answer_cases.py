"""What the tracer records of answers of each client, whole and streamed, with other values by turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cases import cases, check

from spangrade.tracer._responses import read_response


def read(given: Any) -> Any:
    try:
        answer = read_response(given["answer"])
        return [answer, answer.finish_reasons, answer.messages]
    except (TypeError, AttributeError, KeyError) as error:
        return f"not read: {type(error).__name__}"


@pytest.mark.parametrize(("file", "place"), cases("answers"))
def test_an_answer_is_recorded_as_the_conventions_have_it(file: Path, place: str | None) -> None:
    check(file, place, read)
