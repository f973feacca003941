"""The commands by name: where each is, its group, what it does, an example.

Nothing is imported here: `spangrade --help` is printed from this table alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

FIRST_DAY, GOLDEN, PRODUCTION, UPKEEP = "First day", "Golden sets", "Production", "Upkeep"
GROUPS = (FIRST_DAY, GOLDEN, PRODUCTION, UPKEEP)


class Command(NamedTuple):
    """A command: its group, what it does, and an example of it.

    `where` is MODULE:NAME if these are not its name. One of an app is found by its entry point, as those that
    other packages bring are.
    """

    group: str
    does: str
    usual: str
    where: str = ""
    of_app: bool = False

    @property
    def example(self) -> str:
        """An example of it, as it is typed."""
        return f"spangrade {self.usual}"


COMMANDS: Mapping[str, Command] = {
    "init": Command(
        FIRST_DAY,
        "Ask your agent its first questions, and write what `run` and CI need.",
        "init agent.py:answer",
    ),
    "run": Command(FIRST_DAY, "Ask an agent golden questions, grade it, and say what flipped.", "run"),
    "show": Command(
        FIRST_DAY,
        "Show what an agent did in a session, or why sessions of a run failed.",
        "show order-3f2a",
    ),
    "compare": Command(
        FIRST_DAY,
        "Compare two runs, or two selections of sessions.",
        "compare branch:main latest --fail-if worse",
    ),
    "view": Command(
        FIRST_DAY, "Serve pages of sessions, verdicts and runs for a browser.", "view", of_app=True
    ),
    "demo": Command(FIRST_DAY, "Show a green run, a change and a red run on a made-up agent.", "demo"),
    "grade": Command(
        GOLDEN,
        "Grade stored sessions by golden questions, or by gates alone.",
        "grade golden.json --spans spans.jsonl",
    ),
    "convert": Command(
        GOLDEN,
        "Make golden questions of a file of another tool, or of stored sessions.",
        "convert promptfoo.yaml -o golden.json",
    ),
    "lint": Command(GOLDEN, "List what recordings lack, and how to fix it.", "lint --dataset golden.json"),
    "audit": Command(
        GOLDEN,
        "Break sessions that pass: which defects do the gates notice? Or mine rules.",
        "audit golden.json",
        of_app=True,
    ),
    "judge": Command(
        GOLDEN,
        "Find out whether a judge is right: its verdicts against people's labels.",
        "judge final_response_quality",
    ),
    "import": Command(
        PRODUCTION,
        "Import recorded spans and logs, and derive sessions from them.",
        "import traces.jsonl",
        where="import_:import_",
    ),
    "serve": Command(
        PRODUCTION,
        "Receive, grade and show sessions as one service, for a team.",
        "serve --data /var/lib/spangrade",
        of_app=True,
    ),
    "sessions": Command(
        PRODUCTION, "List the sessions, with the verdict of each.", "sessions --failed --since 7d"
    ),
    "runs": Command(PRODUCTION, "List the runs, the newest first.", "runs --limit 10"),
    "trend": Command(
        PRODUCTION,
        "Show a metric by day, version, prompt or model, with intervals.",
        "trend passed --by version",
    ),
    "label": Command(
        PRODUCTION,
        "Give a session a person's verdict or scores, or walk through those without.",
        "label order-3f2a fail --by ines",
    ),
    "sql": Command(
        PRODUCTION,
        "Query the spans and what is derived from them.",
        "sql 'SELECT session_id, cost_usd FROM sessions'",
    ),
    "mcp": Command(
        PRODUCTION,
        "Let a coding agent ask about sessions and runs over MCP.",
        "mcp --db agents.duckdb",
        of_app=True,
    ),
    "doctor": Command(
        UPKEEP, "Show what is installed, stored and reachable, and the settings in force.", "doctor"
    ),
    "delete": Command(UPKEEP, "Delete sessions for good.", "delete --before 90d --dry-run"),
    "lake": Command(
        UPKEEP,
        "Keep sessions in a lake, for more spans than one machine holds.",
        "lake update --lake postgres:dbname=lake --landing s3://spans",
        of_app=True,
    ),
}
_UPDATE = "`spangrade lake update` derives and grades what has landed"
# The commands that work on a database file and not on a lake, and what to do there.
NOT_ON_A_LAKE = {
    "delete": "`spangrade lake delete` deletes from one",
    "import": f"{_UPDATE}, `spangrade lake import` imports a database file",
    "run": "it stores sessions in a database file (--db)",
    "serve": f"{_UPDATE}: run it at intervals",
}

COMMON = {
    "--db FILE": "the DuckDB file of the spans, or a lake's catalog, postgres:… ($SPANGRADE_DB)",
    "--config FILE": "the settings ($SPANGRADE_CONFIG; the nearest spangrade.toml)",
    "--format json": "how a result is printed: table, json, csv or markdown",
    "-h, --help": "what a command does, with an example",
}


def help_text() -> str:
    """Return what `spangrade --help` prints."""
    return "\n".join(_help_lines()) + "\n"


def _help_lines() -> Iterator[str]:
    yield from (
        "Usage: spangrade COMMAND [OPTIONS]",
        "",
        "Grade AI agents from the OpenTelemetry spans they emit. New here: spangrade demo",
    )
    for group in GROUPS:
        yield from ("", group)
        for name, command in COMMANDS.items():
            if command.group == group:
                yield f"  {name:<9} {command.does}"
    yield from ("", "Options of most commands")
    for flag, what in COMMON.items():
        yield f"  {flag:<20} {what}"
    yield from (
        "",
        "spangrade --version · spangrade --umask OCTAL COMMAND: what others may not do with new files",
    )
