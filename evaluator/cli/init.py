"""`spangrade init`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spangrade.evaluator.cli.output import console, database
from spangrade.tracer.errors import InputError
from spangrade.tracer.terminal import print_line, warn

if TYPE_CHECKING:
    from spangrade import Session

_SETTINGS = Path("spangrade.toml")
_GOLDEN = Path("golden.json")
_WORKFLOW = Path(".github/workflows/spangrade.yml")
_WORKFLOW_TEXT = """\
# Runs the agent over its golden questions on every pull request, compares with the base branch, and comments.
name: Grade the agent
on:
  pull_request:
  push:
    branches: [main]
permissions:
  contents: read
  pull-requests: write
jobs:
  grade:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.13"
      # - run: pip install -r requirements.txt  # what the agent needs
      - uses: OWNER/spangrade@main  # where its repository is
        with:
          agent: {agent}
          dataset: golden.json
          fail-if: worse
"""


def init(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT", help="The agent: file.py:name, package.module:name, or the URL of a server."
        ),
    ],
    ask: Annotated[
        list[str] | None,
        typer.Option("--ask", metavar="TEXT", help="A question to ask; else two are asked for. Repeatable."),
    ] = None,
    http_body: Annotated[
        str | None,
        typer.Option(metavar="JSON", help='For a URL: what it expects, such as \'{"q": "{text}"}\'.'),
    ] = None,
    http_reply: Annotated[
        str | None, typer.Option(metavar="PATH", help="For a URL: where its answer is, such as $.data.reply.")
    ] = None,
) -> None:
    """Begin: ask your agent two questions, and write golden.json, spangrade.toml and a workflow for CI.

    Each question is shown with what the agent did, and written once you confirm it. Nothing that is there is
    overwritten: run it again for more questions. `spangrade run` then needs no options.
    """
    from spangrade.evaluator.running.draft import draft_of, id_of, short_reply

    is_url = agent.startswith(("http://", "https://"))
    texts = ask or [typer.prompt(f"Question {number} for the agent") for number in (1, 2)]
    known = _known_ids()
    questions: list[dict[str, Any]] = []
    for text in texts:
        name = id_of(text, [*known, *(one["id"] for one in questions)])
        questions.append({"id": name, "user_inputs": [text]})
    sessions = _asked(agent, questions, http_body, http_reply, is_url=is_url)
    drafts = []
    for question in questions:
        session = sessions.get(question["id"])
        if session is None or (session.errors and not short_reply(session)):
            warn(f"{question['id']}: the agent gave no answer: it is left out")
            continue
        _show(session)
        default = short_reply(session)
        text = typer.prompt("The reply must contain (- for nothing)", default=default or "-")
        drafts.append(draft_of(session, question["id"], "" if text == "-" else text))
    _write(agent, drafts, http_body, http_reply, is_url=is_url)


def _known_ids() -> list[str]:
    """Return the ids of the golden questions that are there already."""
    from spangrade.converters.datasets.golden import existing

    _, dataset = existing(_GOLDEN)
    return [] if dataset is None else [question.id for question in dataset.golden_questions]


def _asked(
    agent: str,
    questions: list[dict[str, Any]],
    http_body: str | None,
    http_reply: str | None,
    *,
    is_url: bool,
) -> dict[str, Session]:
    """Return what an agent did, by the id of the question; the database of the project is not touched."""
    import spangrade

    asked: object = spangrade.HttpAgent(agent, http_body, http_reply) if is_url else agent
    with database(Path(":memory:")) as opened, opened:
        opened.run(asked, questions, name="init")
        return {one.question_id: one for one in opened.sessions() if one.question_id is not None}


def _show(session: Session) -> None:
    from spangrade.evaluator.reports.session_text import session_text

    out = console()
    out.print("")
    for part in list(session_text(session, None))[1:]:  # without its head
        out.print(part)


def _write(
    agent: str,
    drafts: list[dict[str, Any]],
    http_body: str | None,
    http_reply: str | None,
    *,
    is_url: bool,
) -> None:
    """Write what is missing, each after it is confirmed, and say what there is already."""
    from spangrade.converters.datasets.files import create_text
    from spangrade.converters.datasets.golden import append
    from spangrade.tracer.canonical_json import dumps

    kept = []
    for draft in drafts:
        print_line(dumps(draft))
        if typer.confirm(f"Add it to {_GOLDEN}?", default=True):
            kept.append(draft)
    if kept:
        added, problems = append(_GOLDEN, kept)
        for problem in problems:
            warn(f"{problem.where}: {problem.message}")
        print_line(f"{_GOLDEN}: {added} added, nobody has reviewed them: spangrade review --golden {_GOLDEN}")
    elif not _GOLDEN.exists():
        raise InputError("no question was confirmed: nothing is written")
    values = {"http" if is_url else "agent": agent, "http_body": http_body, "http_reply": http_reply}
    lines = [f"{key} = {dumps(value)}" for key, value in values.items() if value is not None]
    settings = "\n".join(["[run]", *lines, f'dataset = "{_GOLDEN}"', ""])
    named = agent if not is_url else f'""  # a server: start it before, and give options: --http {agent}'
    for path, text in ((_SETTINGS, settings), (_WORKFLOW, _WORKFLOW_TEXT.format(agent=named))):
        if path.exists():
            print_line(f"{path}: it is there, and stays as it is")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        create_text(path, text)
        print_line(f"{path}: written")
    print_line("next: spangrade run")
