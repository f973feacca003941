"""Every row of the guide's table of frameworks is played: its lines, and no others, in a clean environment.

What a play records is compared with `played.json`, of which the table is made; PLAYED=write writes it anew.
"""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import pytest
from model_server import CANCEL, FIRST, NOW, SECOND, SORRY, WEATHER, model_server
from rows import RECORD, ROWS

import spangrade
from spangrade.tracer.frameworks import FRAMEWORKS

HERE = Path(__file__).parent
GOLDEN = {"golden_questions": [{"id": "q1", "user_inputs": [FIRST, SECOND], "reference_data": {}}]}
END = "\nif __name__ == '__main__':\n    import asyncio\n    asyncio.run(hold([{first!r}, {second!r}]))\n"


@pytest.fixture(scope="module")
def address():
    with model_server() as found:
        yield found


def program(row, *, configured):
    """Return the row's agent as a file: its lines are where its comment is, `configure` stands first."""
    text = (HERE / "stacks" / row.script).read_text(encoding="utf-8")
    assert "# LINES\n" in text or not row.framework.lines
    text = text.replace("# LINES\n", "".join(f"{line}\n" for line in row.framework.lines.split("; ")))
    first = 'import spangrade\nspangrade.configure("shop")\n' if configured else ""
    return first + text + END.format(first=FIRST, second=SECOND)


def play(row, door, folder, address):
    """Play a row's agent in a process of its own, and return the sessions that it leaves."""
    (folder / "agent.py").write_text(program(row, configured=door == "configure"), encoding="utf-8")
    (folder / "golden.json").write_text(json.dumps(GOLDEN))
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OTEL_", "SPANGRADE", "PYTEST", "COV"))
    }
    clean |= {
        "OPENAI_BASE_URL": f"{address}/v1",
        "OPENAI_API_BASE": f"{address}/v1",
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": "none",
        "PYTHONPATH": str(HERE),
        "HOME": str(folder),
    }
    command = {
        "configure": ["agent.py"],
        "run": ["-m", "spangrade", "run", f"agent.py:{row.agent}", "golden.json", "--db", "spangrade.duckdb"],
    }[door]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=clean,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in ({0} if door == "configure" else {0, 1, 4}), done.stdout + done.stderr
    with spangrade.open(folder / "spangrade.duckdb") as db:
        return list(db.sessions())


def is_installed(distribution):
    try:
        return bool(metadata.version(distribution))
    except metadata.PackageNotFoundError:
        return False


def seen_in(sessions, row):
    """Return of each kind of fact whether sessions record it as it was; what is wrong is an error."""
    turns = sorted((turn for one in sessions for turn in one.turns), key=lambda turn: turn.start_ns or 0)
    truth = dict([WEATHER, CANCEL])
    every = [call for one in sessions for call in one.tool_interactions]
    calls = [call for call in every if call.tool_name in truth]
    named = {call.tool_name: call for call in calls}
    for turn, text, reply in zip(turns, (FIRST, SECOND), (NOW, SORRY), strict=False):
        assert turn.user_input in (None, text)
        assert turn.final_response in (None, "", reply)
    for name, call in named.items():
        assert call.input_arguments in (None, truth[name])
        assert call.ok in (None, name == "get_weather")
    frameworks_own = ("transfer", "finish")  # a hand-off as a tool, and how DSPy's ReAct ends
    assert all(call.tool_name.startswith(frameworks_own) for call in every if call not in calls)
    weather, cancel = named.get("get_weather"), named.get("cancel_order")
    answered = [turn.final_response in (NOW, SORRY) or turn.failed for turn in turns]
    usage = [one.usage for one in sessions if one.llm_calls]
    agents = {name for one in sessions for name in one.agents or ()}
    return {
        "user texts": [turn.user_input for turn in turns] == [FIRST, SECOND],
        "replies": answered == [True, True],
        "tools": [call.tool_name for call in calls] == list(truth),
        "arguments": {name: call.input_arguments for name, call in named.items()} == truth,
        "results": weather is not None and "21" in str(weather.output),
        "failures": cancel is not None and cancel.ok is False,
        "tokens": bool(usage) and all(one.input_tokens and one.output_tokens for one in usage),
        "agents": {"concierge", *(["orders"] if row.hands_off else [])} <= agents,
        "hand-offs": not row.hands_off or any(one.handoffs for one in sessions),
        "one session": len(sessions) == 1,
    }


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.script])
def test_a_row_of_the_guide_records_what_it_says(name, address, tmp_path):
    row = ROWS[name]
    for one in row.releases:
        if not is_installed(one):
            pytest.skip(f"{one} is not installed: the group `frameworks`, or .ci/long, has it")
    lacking = {}
    for door in ("run", "configure"):
        (folder := tmp_path / door).mkdir()
        seen = seen_in(play(row, door, folder, address), row)
        lacking[door] = [fact for fact, is_seen in seen.items() if not is_seen]
    if os.environ.get("PLAYED") == "write":
        write(name, lacking)
    written = json.loads(RECORD.read_text())[name]
    assert written["lines"] == row.framework.lines
    assert lacking == {door: written[door] for door in lacking}


def write(name, lacking):
    """Write what a play showed into the record, in the order of the rows."""
    row, written = ROWS[name], json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    releases = {one: metadata.version(one) for one in row.releases}
    common = {"lines": row.framework.lines, "date": f"{datetime.now(UTC):%Y-%m-%d}", "releases": releases}
    written[name] = common | lacking
    RECORD.write_text(json.dumps({one: written[one] for one in ROWS if one in written}, indent=2) + "\n")


def test_every_framework_has_a_row():
    assert {one.name for one in FRAMEWORKS} <= {row.framework.name for row in ROWS.values()}
