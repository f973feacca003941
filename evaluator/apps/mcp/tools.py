"""What can be asked over the Model Context Protocol: each tool is a few lines over what a command calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from spangrade.evaluator.apps.mcp import documents
from spangrade.evaluator.apps.mcp.answers import MAX_TOKENS, OURS, Asked, answer, whole
from spangrade.evaluator.apps.mcp.session_parts import OUTLINE, known, outline, part_of, parts_of
from spangrade.evaluator.database import Database, list_metrics
from spangrade.evaluator.derive.schema import documented_views
from spangrade.evaluator.grading.run_list import find_run_id
from spangrade.evaluator.grading.stored_run import stored_questions_of
from spangrade.evaluator.reports.clusters import cluster_json
from spangrade.evaluator.reports.comparison import comparison_json
from spangrade.evaluator.reports.comparison_head import head_of_comparison
from spangrade.evaluator.reports.findings import by_kind
from spangrade.evaluator.reports.html.grid_page import NONE, GridColumn, GridRow, grid_page
from spangrade.evaluator.reports.html.sessions_page import cursor_of, sessions_page
from spangrade.evaluator.reports.json import metric_json, stored_run_json
from spangrade.evaluator.reports.rules import rule_rows
from spangrade.evaluator.reports.why import why_json
from spangrade.evaluator.session import utc_text
from spangrade.evaluator.statistics.comparison.compare import Change
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.memory import bounded_memory

_SQL_TIMEOUT_S = 30.0
_SQL_ROWS = 10_000
_LINE = 200  # characters of a text in a list
_NOT_OF_A_RUN = ("dataset_digest", "prices_version")
_MOVED = (Change.WORSE, Change.BETTER)
_EXPLAINED = "session: part=outline of one, then the parts that it names"

Offset = Annotated[int, Field(ge=0, description="The first item to return, as `left_out` of an answer says.")]
Run = Annotated[
    str, Field(description="A run: its name, the beginning of its id, `latest` or `branch:NAME`.")
]
SessionId = Annotated[str, Field(description="A session's id, or an unambiguous beginning of it.")]


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools over one database, and who labels in it: None changes nothing.

    `golden` is the file to which drafts of questions are added.
    """

    database: Database
    person: str | None = None
    golden: Path | None = None
    max_tokens: int = MAX_TOKENS
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)  # DuckDB opens a file once

    def sessions(
        self,
        query: Annotated[
            str,
            Field(
                description="Words to search for, and filters: verdict:failed tool:NAME failed-tool:any "
                "errors:with error:TEXT agent: model: version: user: question: run: origin:any cost>0.1 "
                "latency>20 tokens>5000 turns>3 since:7d until:2026-01-31."
            ),
        ] = "",
        sort: Literal["newest", "start", "latency", "cost", "tokens", "errors", "verdict"] = "newest",
        after: Annotated[str, Field(description="`after` of the answer before, for the next page.")] = "",
        offset: Offset = 0,
    ) -> str:
        """List or search sessions, with the verdict of each; without an origin those of production."""
        texts = {"q": query, "sort": sort, **({"after": after} if after else {})}
        with self._reading() as store:
            found = sessions_page(store, texts)
        rows = found["sessions"]
        more = found["next"] is not None
        about = {"sessions": len(rows), **({"after": cursor_of(rows[-1])} if more else {})}
        then = ["sessions with `after`: the next page"] if more else []
        return self._answer(about, [_session_row(row) for row in rows], offset, _LINE, _EXPLAINED, then)

    def session(
        self,
        session: SessionId,
        part: Annotated[
            str,
            Field(
                description="`outline`, or what it names: `turn 2`, `call 3`, `model 1`, `state`, `scores`, "
                "`errors`, `instructions`, `tools`, `question` (what was expected), `spans`."
            ),
        ] = OUTLINE,
        offset: Offset = 0,
    ) -> str:
        """Show what an agent did in a session and its verdict: an outline first, its parts on request."""
        with self._one_at_a_time:
            graded = self.database.graded_session(session)
            if part == OUTLINE:
                about = {"parts": parts_of(graded.session)}
                rest = "session with the part of that turn, call or state"
                return self._answer(about, outline(graded), offset, rest=rest)
            if part == "spans":
                readings = why_json(self.database.why(graded.session.session_id))
                return self._answer({"spans": len(readings)}, readings, offset, _LINE)
            if part == "question":
                grade = graded.grade
                question = None
                if grade is not None and grade.question_id is not None:
                    with self.database.stored.reading() as store:
                        found = stored_questions_of(store, grade.run_id, [grade.question_id])
                    question = found.get(grade.question_id)
                value = question and question.model_dump(mode="json", exclude_defaults=True)
            else:
                value = part_of(graded, part)
        return whole(value, Asked(self.max_tokens, offset))

    def runs(
        self,
        limit: Annotated[int, Field(ge=1, le=1000)] = 20,
        watched: Annotated[
            bool, Field(description="The rolling runs of `spangrade serve --only grade`.")
        ] = False,
        offset: Offset = 0,
    ) -> str:
        """List the grading runs, the newest first, with the number of sessions of each verdict."""
        with self._one_at_a_time:
            listed = self.database.list_runs(limit=limit, watched=watched).rows()
        rows = [_run_row(stored_run_json(row)) for row in listed]
        then = [
            "compare: an earlier run with a later one",
            "explain: why sessions of a run failed",
            "grid: the verdict of each question of a run",
        ]
        return self._answer({"runs": len(rows)}, rows, offset, _LINE, then=then)

    def grid(
        self,
        run: Run,
        against: Annotated[str, Field(description="A run to compare with; by default the one before.")] = "",
        changed: Annotated[bool, Field(description="Only what changed against it.")] = False,
        verdict: Annotated[str, Field(description="Only questions with this verdict.")] = "",
        metric: Annotated[str, Field(description="Only questions with a value of this metric.")] = "",
        offset: Offset = 0,
    ) -> str:
        """Show a run as a grid: a row for each question, with the gates and metrics that say something."""
        texts = {
            "against": against,
            "verdict": verdict,
            "metric": metric,
            "changed": "yes" if changed else "",
        }
        with self._reading() as store:
            run_id = find_run_id(store, run)
            if against and against != NONE:
                find_run_id(store, against)
            found = grid_page(store, run_id, {**texts, "skip": str(offset)})
        rows = [_grid_row(row, found["columns"]) for row in found["rows"]]
        about = {"questions": found["total"], "verdicts": found["verdicts"], "from": offset}
        then = [_EXPLAINED]
        if offset + len(rows) < found["total"]:
            then.append(f"grid with offset={offset + len(rows)}: further questions")
        return self._answer(about, rows, 0, _LINE, "grid with `verdict` or `changed`, and offset", then)

    def compare(
        self,
        first: Run,
        second: Run,
        by: Annotated[
            Literal["", "version", "prompt", "model"],
            Field(description="Compare two versions of the agent, two prompts or two models."),
        ] = "",
        metrics: Annotated[list[str] | None, Field(description="Only these metrics.")] = None,
        where: Annotated[str, Field(description="Only sessions of this condition in SQL.")] = "",
        offset: Offset = 0,
    ) -> str:
        """Compare two runs question by question: what regressed, what was fixed, which metrics moved."""
        with self._one_at_a_time:
            compared = self.database.compare(
                first, second, by=by or None, metrics=metrics or (), select=where or None
            )
            lines = head_of_comparison(compared, compared.exit_code(), self.database.stored)
        values = comparison_json(*compared)
        sides = {side: {key: values[side][key] for key in ("run", "run_id")} for side in ("first", "second")}
        items: list[Any] = [{"summary": [f"{line.mark} {line.text}".strip() for line in lines], **sides}]
        for kind in ("regressed", "inconclusive_in_second", "fixed", "inconclusive_in_first"):
            items += [{kind: _flip(one)} for one in values[kind]]
        items += [
            _moved(one) for one in sorted(values["metrics"], key=lambda one: one["change"] not in _MOVED)
        ]
        items += [
            {key: values[key]}
            for key in ("changed_questions", "only_in_first", "only_in_second")
            if values[key]
        ]
        about = {"compared": values["compared"]}
        then = [
            "session: of a regressed question, the session that failed and the one before",
            "explain: a run",
        ]
        return self._answer(about, items, offset, _LINE, "session with part=scores", then)

    def explain(
        self,
        run: Run,
        what: Annotated[str, Field(description="A part of what went wrong, such as a tool's name.")] = "",
        baseline: Annotated[str, Field(description="A run whose passing sessions count, too.")] = "",
        offset: Offset = 0,
    ) -> str:
        """Say why sessions of a run failed: those that failed alike together, and where they part."""
        with self._one_at_a_time:
            found = self.database.explain(run, what, baseline=baseline or None)
        ways = [known({**cluster_json(one), "sessions": len(one.sessions)}) for one in found]
        return self._answer({"ways": len(ways)}, ways, offset, then=[_EXPLAINED])

    def rules(
        self,
        mine: Annotated[bool, Field(description="Propose rules that good sessions keep to instead.")] = False,
        offset: Offset = 0,
    ) -> str:
        """Hold sessions against the rules on calls in the settings: how many break each, and examples."""
        with self._one_at_a_time:
            found = self.database.mine_rules() if mine else self.database.check_rules()
        then = [_EXPLAINED] if found else ["rules with mine=true: rules that good sessions keep to"]
        return self._answer({"rules": len(found)}, rule_rows(found), offset, then=then)

    def lint(
        self,
        session: Annotated[str, Field(description="Only this session.")] = "",
        offset: Offset = 0,
    ) -> str:
        """List what the recordings lack, which metrics are inconclusive because of it, and how to fix it."""
        with self._one_at_a_time:
            found = list(by_kind(self.database.lint(session or None)))
        return self._answer({"kinds": len(found)}, found, offset)

    def metrics(
        self,
        name: Annotated[str, Field(description="One of them, with its formula.")] = "",
        offset: Offset = 0,
    ) -> str:
        """List the metrics: what each measures, its unit, and whether it is a gate by itself."""
        listed = [metric_json(one) for one in list_metrics()]
        if name:
            named = [one for one in listed if one["name"] == name.partition(":")[0]]
            if not named:
                raise InputError(f"name: expected one of {', '.join(one['name'] for one in listed)}")
            return self._answer({}, named, offset, 4000, key=OURS)
        keys = ("name", "unit", "better", "threshold", "needs", "parameters")
        rows = [known({key: one[key] or None for key in keys}) for one in listed]
        return self._answer({"metrics": len(rows)}, rows, offset, then=["metrics with name: one"], key=OURS)

    def schema(
        self,
        of: Annotated[
            str, Field(description="A view such as `sessions`, or `golden` for golden files.")
        ] = "",
        offset: Offset = 0,
    ) -> str:
        """Describe the views that `sql` reads, their columns, and the form of golden files."""
        views = {view.name: view for view in documented_views()}
        if of == "golden":
            from spangrade.converters.datasets.golden_schema import golden_schema

            fields = golden_schema()
            parts = [{name: part} for name, part in fields["$defs"].items()]
            rest = {name: part for name, part in fields.items() if name != "$defs"}
            return self._answer({"schema": "JSON Schema"}, [rest, *parts], offset, 1000, key=OURS)
        if of and of not in views:
            raise InputError(f"of: expected golden, or one of {', '.join(views)}")
        if of:
            rows = [
                {"column": f"{c.name} {c.type} {c.unit}".strip(), "is": c.description}
                for c in views[of].columns
            ]
        else:
            rows = [{"view": view.name, "is": view.description} for view in views.values()]
        then = [] if of else ["schema with of: the columns of a view"]
        return self._answer({"of": of or "views"}, rows, offset, then=then, key=OURS)

    def sql(
        self,
        query: Annotated[str, Field(description="One SELECT over the views that `schema` describes.")],
        offset: Offset = 0,
    ) -> str:
        """Query the spans and what is derived from them. Nothing can be written, and no file read."""
        with self._one_at_a_time, bounded_memory():
            rows = self.database.sql(query, timeout_s=_SQL_TIMEOUT_S, max_rows=_SQL_ROWS).rows()
        return self._answer({"rows": len(rows)}, rows, offset, rest="substr(column, start, length)")

    def docs(
        self,
        query: Annotated[str, Field(description="Words to search for.")] = "",
        page: Annotated[str, Field(description="A page, such as `metrics` or `datasets`.")] = "",
        offset: Offset = 0,
    ) -> str:
        """Search or read the documentation of spangrade: commands, golden files, metrics, rules, verdicts."""
        if page:
            found = documents.sections(page)
            items: list[Any] = [one._asdict() for one in found]
            return self._answer({"sections": len(items)}, items, offset, 6000, key=OURS)
        if query:
            items = [one._asdict() for one in documents.search(query)]
            then = ["docs with page: a whole page"]
            return self._answer({"sections": len(items)}, items, offset, 1200, then[0], then, key=OURS)
        return self._answer({}, list(documents.pages()), offset, then=["docs with query or page"], key=OURS)

    def label(
        self,
        session: SessionId,
        verdict: Literal["pass", "fail"],
        note: str = "",
        metric: Annotated[
            str, Field(description="What the verdict is on; by default the whole session.")
        ] = "",
    ) -> str:
        """Store the verdict on a session of the person for whom this server runs. Ask that person first."""
        if self.person is None:
            raise InputError("this server changes nothing: start it with --allow-labels --as NAME")
        with self._one_at_a_time:
            given = self.database.label(session, verdict, by=self.person, metric=metric or None, note=note)
        return self._answer({"stored": True}, [{"session_id": given.session_id, "label": given.label}], 0)

    def draft_question(
        self,
        session: SessionId,
        question_id: Annotated[str, Field(description="Its id; by default that of the session.")] = "",
        wildcards: Annotated[bool, Field(description="Expect no value that looks generated.")] = False,
    ) -> str:
        """Add a session to the golden file as a draft of a question: what it did is expected."""
        if self.golden is None:
            raise InputError(
                "no golden file is open: start this server with --allow-labels and --golden FILE"
            )
        with self._one_at_a_time:
            added = self.database.add_to_golden(
                session, self.golden, question_id=question_id or None, wildcards=wildcards
            )
        items = [*added.volatile, *(one.message for one in added.problems)]
        return self._answer({"added": added.added, "reviewed": False}, items, 0)

    def _answer(
        self,
        about: Mapping[str, Any],
        items: Sequence[Any],
        offset: int,
        text: int = 400,
        rest: str = "",
        then: Sequence[str] = (),
        **more: str,
    ) -> str:
        asked = Asked(self.max_tokens, offset)
        return answer(about, items, asked, text=text, rest=rest, then=then, **more)

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        with self._one_at_a_time, self.database.stored.reading() as store:
            yield store


READ = (
    "sessions",
    "session",
    "runs",
    "grid",
    "compare",
    "explain",
    "rules",
    "lint",
    "metrics",
    "schema",
    "sql",
    "docs",
)
WRITE = ("label", "draft_question")


def _session_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return known(
        {
            "session_id": row["session_id"],
            "question_id": row["question_id"],
            "verdict": row["verdict"] or "not graded",
            "reason": row["reason"] or None,
            "first_input": row["first_input"],
            "started_at": None if row["start_ns"] is None else utc_text(row["start_ns"]),
            "turns": row["turns"],
            "calls": row["tool_interactions"],
            "errors": row["errors"] or None,
            "seconds": row["total_s"],
            "cost_usd": row["cost_usd"],
            "tokens": row["tokens"],
            "version": row["agent_version"],
        }
    )


def _run_row(run: Mapping[str, Any]) -> dict[str, Any]:
    return known({key: value for key, value in run.items() if key not in _NOT_OF_A_RUN and value != []})


def _grid_row(row: GridRow, columns: Sequence[GridColumn]) -> dict[str, Any]:
    gates = [
        f"{column.metric} {cell.state}{'' if cell.value is None else f' {cell.value:g}'}: {cell.reason}"
        for column, cell in zip(columns, row.cells, strict=True)
        if cell is not None and cell.state not in ("", "passed") and column.judged
    ]
    moved = [
        f"{column.metric} {cell.style} by {cell.change:+.4g} to {cell.value:.4g}"
        for column, cell in zip(columns, row.cells, strict=True)
        if cell is not None and cell.change and cell.style and cell.value is not None
    ]
    return known(
        {
            "question": row.key,
            "verdict": row.verdict,
            "before": row.before,
            "passed": row.share or None,
            "session_id": row.session_id,
            "session_id_before": row.base_session_id,
            "user": row.words,
            "not_passed": gates or None,
            "moved": moved or None,
        }
    )


def _flip(flip: Mapping[str, Any]) -> dict[str, Any]:
    def sessions(side: str) -> list[str]:
        return [f"{one['session_id']} {one['verdict']}" for one in flip[side]]

    return known(
        {
            "question_id": flip["question_id"],
            "reason": flip["reason"],
            "step": flip["step"],
            "sessions_in_first": sessions("first"),
            "sessions_in_second": sessions("second"),
        }
    )


def _moved(change: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("metric", "unit", "first", "second", "questions", "change", "note")
    return known({key: change[key] for key in keys if change[key] != ""})
