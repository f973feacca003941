"""The commands by name: where each is, its group, what it does, an example; and earlier names.

Nothing is imported here: `spangrade --help` is printed from this table alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

FIRST_DAY, GOLDEN, PRODUCTION, UPKEEP = "First day", "Golden sets", "Production", "Upkeep"
GROUPS = (FIRST_DAY, GOLDEN, PRODUCTION, UPKEEP)


class Command(NamedTuple):
    """A command as MODULE:NAME, its group (empty: it is not listed), what it does, and an example of it.

    `instead` is the form that is to be used in its place, of a name that an earlier version had.
    """

    where: str
    group: str
    does: str
    example: str
    instead: str = ""

    @property
    def hidden(self) -> bool:
        """Whether `--help` does not list it."""
        return not self.group


COMMANDS: Mapping[str, Command] = {
    "init": Command(
        "init:init",
        FIRST_DAY,
        "Ask your agent its first questions, and write what `run` and CI need.",
        "spangrade init agent.py:answer",
    ),
    "run": Command(
        "run:run",
        FIRST_DAY,
        "Ask an agent golden questions, grade it, and say what flipped.",
        "spangrade run",
    ),
    "show": Command(
        "show:show",
        FIRST_DAY,
        "Show what an agent did in one session, and its verdict.",
        "spangrade show order-3f2a",
    ),
    "compare": Command(
        "compare:compare",
        FIRST_DAY,
        "Compare two runs, or two selections of sessions.",
        "spangrade compare branch:main latest --fail-if worse",
    ),
    "view": Command(
        "view:view",
        FIRST_DAY,
        "Serve pages of sessions, verdicts and runs for a browser.",
        "spangrade view",
    ),
    "demo": Command(
        "demo:demo",
        FIRST_DAY,
        "Show a green run, a change and a red run on a made-up agent.",
        "spangrade demo",
    ),
    "grade": Command(
        "grade:grade",
        GOLDEN,
        "Grade stored sessions by golden questions, or by gates alone.",
        "spangrade grade golden.json --spans spans.jsonl",
    ),
    "explain": Command(
        "explain:explain",
        GOLDEN,
        "Show why sessions failed, those that failed alike together, and what tells them apart.",
        "spangrade explain latest",
    ),
    "convert": Command(
        "convert:app",
        GOLDEN,
        "Make golden questions of a file of another tool, or of stored sessions.",
        "spangrade convert promptfoo.yaml -o golden.json",
    ),
    "lint": Command(
        "lint:lint",
        GOLDEN,
        "List what recordings lack, and how to fix it.",
        "spangrade lint --dataset golden.json",
    ),
    "audit": Command(
        "audit:audit",
        GOLDEN,
        "Break sessions that pass, and see which defects the gates notice.",
        "spangrade audit golden.json",
    ),
    "judge": Command(
        "judge:app",
        GOLDEN,
        "Find out whether a judge is right: its verdicts against people's labels.",
        "spangrade judge final_response_quality",
    ),
    "rules": Command(
        "rules:app",
        GOLDEN,
        "Learn rules on calls from good sessions, and hold sessions against them.",
        "spangrade rules mine --since 30d",
    ),
    "metrics": Command(
        "metrics:metrics",
        GOLDEN,
        "List the metrics.",
        "spangrade metrics --metrics-file mine.py",
    ),
    "import": Command(
        "import_:import_",
        PRODUCTION,
        "Import recorded spans and logs, and derive sessions from them.",
        "spangrade import traces.jsonl",
    ),
    "collect": Command(
        "collect:collect",
        PRODUCTION,
        "Receive spans and logs over OTLP into one database.",
        "spangrade collect --db agents.duckdb",
    ),
    "watch": Command(
        "watch:watch",
        PRODUCTION,
        "Grade sessions once they are idle, and again if something arrives.",
        "spangrade watch --metric 'latency_metrics<=20'",
    ),
    "sessions": Command(
        "sessions:sessions",
        PRODUCTION,
        "List the sessions, with the verdict of each.",
        "spangrade sessions --failed --since 7d",
    ),
    "trend": Command(
        "trend:trend",
        PRODUCTION,
        "Show a metric by day, version, prompt or model, with intervals.",
        "spangrade trend passed --by version",
    ),
    "label": Command(
        "score:label",
        PRODUCTION,
        "Give a session a person's verdict or scores, or walk through those without.",
        "spangrade label order-3f2a fail --by ines",
    ),
    "sql": Command(
        "sql:sql",
        PRODUCTION,
        "Query the spans and what is derived from them.",
        "spangrade sql 'SELECT session_id, cost_usd FROM sessions'",
    ),
    "mcp": Command(
        "mcp:mcp",
        PRODUCTION,
        "Let a coding agent ask about sessions and runs over MCP.",
        "spangrade mcp --db agents.duckdb",
    ),
    "runs": Command("runs:runs", UPKEEP, "List the runs, the newest first.", "spangrade runs --limit 10"),
    "doctor": Command(
        "doctor:doctor",
        UPKEEP,
        "Show what is installed, stored and reachable, and the settings in force.",
        "spangrade doctor",
    ),
    "delete": Command(
        "delete:delete",
        UPKEEP,
        "Delete sessions for good.",
        "spangrade delete --before 90d --dry-run",
    ),
    "lake": Command(
        "lake:app",
        UPKEEP,
        "Keep sessions in a lake, for more spans than one machine holds.",
        "spangrade lake update --lake postgres:dbname=lake --landing s3://spans",
    ),
    "schema": Command(
        "schema:schema", "", "Print the JSON Schema of golden files.", "spangrade schema golden"
    ),
    "review": Command(
        "review:review",
        "",
        "Walk through sessions or questions, and label them.",
        "spangrade review --by ines",
    ),
    "derive": Command("derive:derive", "", "Derive sessions that are out of date.", "spangrade derive --all"),
    "regrade": Command(
        "regrade:regrade",
        "",
        "Grade a run again without storing it.",
        "spangrade grade --dry-run --of-run latest",
        instead="grade --dry-run --of-run RUN",
    ),
    "score": Command(
        "score:score",
        "",
        "Give a session a score.",
        "spangrade label order-3f2a thumbs=1",
        instead="label SESSION NAME=VALUE",
    ),
    "config": Command(
        "config:config",
        "",
        "Show the settings in force.",
        "spangrade doctor --all",
        instead="doctor",
    ),
}

COMMON = {
    "--db FILE": "the DuckDB file of the spans ($SPANGRADE_DB; spangrade.duckdb)",
    "--lake postgres:…": "the catalog of a lake, in place of a file",
    "--config FILE": "the settings ($SPANGRADE_CONFIG; the nearest spangrade.toml)",
    "--format table|json": "how a result is printed",
    "--workers N": "processes that work, where a command has many sessions",
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
