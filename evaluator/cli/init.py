"""`spangrade init`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from spangrade.evaluator.cli.output import console, database
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import REQUIRED, argument, option
from spangrade.tracer.base.terminal import print_line, warn

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
          fail-if: {condition}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions:
    """The agent that is asked, and what it is asked."""

    agent: str = argument(REQUIRED, "The agent: file.py:name, package.module:name, or the URL of a server.")
    ask: tuple[str, ...] = option(
        (), "A question to ask; else two are asked for. Repeatable.", metavar="TEXT"
    )
    http_body: str | None = option(
        None, 'For a URL: what it expects, such as \'{"q": "{text}"}\'.', metavar="JSON"
    )
    http_reply: str | None = option(
        None, "For a URL: where its answer is, such as $.data.reply.", metavar="PATH"
    )

    @property
    def is_url(self) -> bool:
        """Whether it is a server."""
        return self.agent.startswith(("http://", "https://"))


def init(new: InitOptions) -> None:
    """Begin: ask your agent two questions, and write golden.json, spangrade.toml and a workflow for CI.

    Each is asked twice: if the agent did the same, the condition on comparisons is `regressed > 0`, else
    `worse`. It is shown with what the agent did, and written once you confirm it. Nothing that is there is
    overwritten: run it again for more questions. `spangrade run` then needs no options.
    """
    from spangrade.evaluator.review.session_to_golden import draft_of, id_of, is_steady, short_reply

    texts = new.ask or [typer.prompt(f"Question {number} for the agent") for number in (1, 2)]
    known = _known_ids()
    questions: list[dict[str, Any]] = []
    for text in texts:
        name = id_of(text, [*known, *(one["id"] for one in questions)])
        questions.append({"id": name, "user_inputs": [text]})
    sessions = _asked(new, questions)
    drafts, steady = [], True
    for question in questions:
        session = next(iter(sessions[question["id"]]), None)
        if session is None or (session.errors and not short_reply(session)):
            warn(f"{question['id']}: the agent gave no answer: it is left out")
            continue
        _show(session)
        steady &= is_steady(sessions[question["id"]], question["id"])
        default = short_reply(session)
        text = typer.prompt("The reply must contain (- for nothing)", default=default or "-")
        drafts.append(draft_of(session, question["id"], "" if text == "-" else text))
    _write(new, drafts, "regressed > 0" if steady else "worse")


def _known_ids() -> list[str]:
    """Return the ids of the golden questions that are there already."""
    from spangrade.converters.datasets.golden import existing

    _, dataset = existing(_GOLDEN)
    return [] if dataset is None else [question.id for question in dataset.golden_questions]


def _asked(new: InitOptions, questions: list[dict[str, Any]]) -> dict[str, list[Session]]:
    """Return what an agent did, by the id of the question; the database of the project is not touched."""
    import spangrade

    agent: object = new.agent
    if new.is_url:
        agent = spangrade.HttpAgent(new.agent, new.http_body, new.http_reply)
    with database(Path(":memory:")) as opened, opened:
        opened.run(agent, questions, name="init", options=spangrade.RunOptions(repeat=2))
        asked = list(opened.sessions())
    return {one["id"]: [each for each in asked if each.question_id == one["id"]] for one in questions}


def _show(session: Session) -> None:
    from spangrade.evaluator.reports.session_text import session_text

    out = console()
    out.print("")
    for part in list(session_text(session, None))[1:]:  # without its head
        out.print(part)


def _write(new: InitOptions, drafts: list[dict[str, Any]], condition: str) -> None:
    """Write what is missing, each after it is confirmed, and say what there is already."""
    from spangrade.converters.datasets.files import create_text
    from spangrade.converters.datasets.golden import append
    from spangrade.tracer.base.canonical_json import dumps

    kept = []
    for draft in drafts:
        print_line(dumps(draft))
        if typer.confirm(f"Add it to {_GOLDEN}?", default=True):
            kept.append(draft)
    if kept:
        added, problems = append(_GOLDEN, kept)
        for problem in problems:
            warn(f"{problem.where}: {problem.message}")
        print_line(
            f"{_GOLDEN}: {added} added, nobody has reviewed them: spangrade label --golden {_GOLDEN} --by YOU"
        )
    elif not _GOLDEN.exists():
        raise InputError("no question was confirmed: nothing is written")
    agent, kind = new.agent, "http" if new.is_url else "agent"
    values = {kind: agent, "http_body": new.http_body, "http_reply": new.http_reply}
    lines = [f"{key} = {dumps(value)}" for key, value in values.items() if value is not None]
    lines += [
        f'dataset = "{_GOLDEN}"',
        "",
        "[options.compare]  # the condition on two runs",
        f'fail_if = ["{condition}"]',
    ]
    settings = "\n".join(["[run]", *lines, ""])
    named = agent if not new.is_url else f'""  # a server: start it before, and give options: --http {agent}'
    for path, text in (
        (_SETTINGS, settings),
        (_WORKFLOW, _WORKFLOW_TEXT.format(agent=named, condition=condition)),
    ):
        if path.exists():
            print_line(f"{path}: it is there, and stays as it is")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        create_text(path, text)
        print_line(f"{path}: written")
    print_line("next: spangrade run")
