"""What the tracer writes of messages of each provider, each of whose values is another by turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cases import cases, check

from spangrade.tracer._messages import messages


def written(given: Any) -> Any:
    found = {}
    for name, value in given.items():
        try:
            found[name] = messages(value, "user")
        except TypeError as error:
            found[name] = str(error)
    return found


@pytest.mark.parametrize(("file", "place"), cases("messages"))
def test_messages_are_written_as_the_conventions_have_them(file: Path, place: str | None) -> None:
    check(file, place, written)
