"""Nothing that was recorded, or that a file is called, reaches the terminal as a control or as markup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import spangrade

from spangrade.tracer.base.terminal import printable, printable_json
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Store

HOSTILE = {
    "escape": "\x1b[31mred\x1b[0m",
    "cursor": "\x1b[2J\x1b[1;1H",
    "link": "\x1b]8;;http://evil.example\x07click\x1b]8;;\x1b\\",
    "title": "\x1b]0;owned\x07",
    "bell": "\x07\x08\x08",
    "C1": "\x9b31m\x9d0;owned\x9c\x85",
    "direction": "\u202eabc\u202c\u2066def\u2069\u200e\u061c",
    "no width": "a\u200bb\u200cc\u200dd\u2060e\ufeff\u00ad",
    "lines": "one\rtwo\r\nspangrade: 9 sessions: 9 passed\u2028three\x0b\x0c",
    "markup": "[red]a[/red] [/nope] [link=http://evil.example]b[/link] [bold",
    "backslash": "[/] \\",
    "delete": "\x7f\x00",
}
# In every text at once; each is looked for by itself too.
ALL = " ".join(HOSTILE.values())


def unsafe(text: str) -> list[str]:
    """Return the characters that a terminal would do anything else with than show them."""
    return sorted({f"U+{ord(one):04X}" for one in text if not one.isprintable() and one != "\n"})


@pytest.mark.parametrize("name", HOSTILE)
def test_printable_text_has_no_controls_and_keeps_what_can_be_read(name: str) -> None:
    shown = printable(HOSTILE[name])
    assert unsafe(shown) == []
    assert len(shown) == len(HOSTILE[name])
    readable = [one for one in HOSTILE[name] if one.isprintable()]
    assert [one for one in shown if one in readable] == readable


@pytest.mark.parametrize("name", HOSTILE)
def test_json_keeps_its_meaning_and_shows_no_controls(name: str) -> None:
    text = json.dumps({HOSTILE[name]: [HOSTILE[name]]}, ensure_ascii=False, indent=2)
    assert json.loads(printable_json(text)) == {HOSTILE[name]: [HOSTILE[name]]}
    assert unsafe(printable_json(text)) == []


def span(number: int, parent: int | None, name: str, attributes: dict[str, Any], **changes: Any) -> Span:
    return Span(
        trace_id=f"{1:032x}",
        span_id=f"{number:016x}",
        parent_span_id=None if parent is None else f"{parent:016x}",
        name=name,
        kind="INTERNAL",
        start_ns=1_780_000_000_000_000_000 + number * 10**9,
        end_ns=1_780_000_000_000_000_000 + (20 - number) * 10**9,
        attributes={"gen_ai.conversation.id": ALL, **attributes},
        resource={"service.name": ALL},
        scope_name=ALL,
        scope_version=ALL,
        trace_state=ALL,
        **changes,
    )


@pytest.fixture(scope="module")
def hostile_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database in which every text that a session is made of is hostile."""
    db = tmp_path_factory.mktemp("hostile") / "s.duckdb"
    message = [{"role": "user", "parts": [{"type": "text", "content": ALL}]}]
    reply = [{"role": "assistant", "parts": [{"type": "text", "content": ALL}]}]
    failed = {
        "status": "ERROR",
        "status_message": ALL,
        "events": [{"name": "exception", "time_ns": 1, "attributes": {"exception.message": ALL}}],
    }
    spans = [
        span(
            1,
            None,
            f"invoke_agent {ALL}",
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": ALL,
                "spangrade.state": json.dumps({ALL: ALL}),
                "spangrade.question_id": ALL,
                "user.id": ALL,
            },
            **failed,
        ),
        span(
            2,
            1,
            f"chat {ALL}",
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": ALL,
                "gen_ai.response.model": ALL,
                "gen_ai.input.messages": json.dumps(message),
                "gen_ai.output.messages": json.dumps(reply),
                "gen_ai.usage.input_tokens": 5,
                "gen_ai.usage.output_tokens": 5,
            },
        ),
        span(
            3,
            1,
            f"execute_tool {ALL}",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": ALL,
                "gen_ai.tool.call.id": ALL,
                "gen_ai.tool.call.arguments": json.dumps({ALL: ALL}),
                "gen_ai.tool.call.result": json.dumps([ALL]),
                "error.type": ALL,
            },
            **failed,
        ),
    ]
    log = LogRecord(f"{1:032x}", f"{1:016x}", 1, ALL, ALL, ALL, {ALL: ALL}, {ALL: ALL}, ALL, ALL)
    with Store.open(db) as store:
        store.add([*spans, log])
    golden = {
        "golden_questions": [
            {
                "id": ALL,
                "user_inputs": [ALL],
                "agents_evaluated": [ALL],
                "reference_data": {
                    "reference_trajectory": [ALL],
                    "reference_tool_interactions": [{"tool_name": ALL, "input_arguments": {ALL: "other"}}],
                },
            }
        ]
    }
    (db.parent / "golden.json").write_text(json.dumps(golden))
    (db.parent / "broken.json").write_text(json.dumps({"golden_questions": [{"id": ALL, ALL: 1}]}))
    name = "x\x1b[31m\u202e[red][nope]\n.jsonl"
    (db.parent / name).write_text(json.dumps({ALL: ALL}) + "\n")
    return db


SESSION = "\x1b[31mred"  # how the session's id begins
QUERY = f"""select scope_name as "{ALL.replace(chr(0), "")}", * from spans"""


@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        (["sessions"], {0}),
        (["show", SESSION], {0}),
        (["lint"], {0, 4}),
        (["lint", SESSION], {0, 4}),
        (["sql", QUERY], {0}),
        (["sql", "select * from sessions, turns, tool_interactions"], {0, 2}),
        (["sql", f"select '{HOSTILE['escape']}' from nowhere"], {2}),
        (["grade", "golden.json"], {1, 2, 4}),
        (["grade", "broken.json"], {2, 4}),
        (["delete", "--dry-run", "--session", ALL.replace("\0", "")], {0, 2}),
        (["delete", "--dry-run", "--user", ALL.replace("\0", "")], {0, 2}),
        (["lint", "--metrics"], {0}),
        (["doctor", "--derive-all"], {0}),
        (["import", "x\x1b[31m\u202e[red][nope]\n.jsonl"], {2}),
        (["import", "no\x1b[31m\u202e[/nope]such"], {2}),
        (["convert", SESSION, "--output", "out\x1b[31m[/nope].json"], {0, 2}),
        (["show", "no such \x1b[31m [/nope] session"], {2}),
    ],
    ids=lambda value: ascii(" ".join(value))[1:14] if isinstance(value, list) else "",
)
@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.short_form("form", 8)
@pytest.mark.short_form("arguments", 2)
def test_no_command_prints_a_control_or_obeys_markup(
    hostile_db: Path, arguments: list[str], codes: set[int], form: str
) -> None:
    options = [] if arguments[0] == "convert" else ["--db", hostile_db.name, "--format", form]
    if arguments[0] == "convert":
        options = ["--db", hostile_db.name]
    done = spangrade(*arguments, *options, cwd=hostile_db.parent)
    assert unsafe(done.stdout + done.stderr) == []
    assert "Traceback" not in done.stderr
    assert done.returncode in codes, done.stderr


def test_markup_is_shown_as_it_was_written(hostile_db: Path) -> None:
    for command in (["sessions"], ["show", SESSION], ["sql", "select '[red]x[/red] [/nope]' as \"[/nope]\""]):
        done = spangrade(*command, "--db", hostile_db.name, cwd=hostile_db.parent)
        assert "[/nope]" in done.stdout.replace("\n", ""), done.stdout + done.stderr


def test_a_recorded_line_break_begins_no_line_of_the_output(hostile_db: Path) -> None:
    done = spangrade("show", SESSION, "--db", hostile_db.name, cwd=hostile_db.parent)
    assert not [line for line in done.stdout.split("\n") if line.startswith("spangrade: 9 sessions")]
    done = spangrade("import", "a\nspangrade: all is well", "--db", hostile_db.name, cwd=hostile_db.parent)
    assert [line for line in done.stderr.split("\n") if line.startswith("spangrade: all")] == []
