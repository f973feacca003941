"""Commands that need a database file refuse a lake in one line."""

from __future__ import annotations

import pytest
from command_line import Spangrade

from spangrade.evaluator.cli.commands import NOT_ON_A_LAKE
from spangrade.tracer.base.installation import to_install


@pytest.mark.parametrize("command", sorted(NOT_ON_A_LAKE))
def test_a_command_that_needs_a_file_says_what_to_do_on_a_lake(command: str, spangrade: Spangrade) -> None:
    refused = spangrade(command, *(["x"] if command == "import" else []), "--db", "postgres:dbname=lake")
    message = f"spangrade: {command} does not work on a lake: {NOT_ON_A_LAKE[command]}"
    assert (refused.code, refused.out, refused.err) == (2, [], [message])


def test_a_lake_without_its_extra_says_what_to_install(
    spangrade: Spangrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spangrade.tracer.store.object_storage.find_spec", lambda name: None)
    refused = spangrade("sessions", "--db", "postgres:dbname=lake")
    message = f"spangrade: a lake needs duckdb-extension-httpfs: {to_install('lake')}"
    assert (refused.code, refused.out, refused.err) == (2, [], [message])
