"""The latest verdict of a session, and its latest scores, are defined once: in `evaluator/results`."""

from __future__ import annotations

import re

from paths import ROOT

SECOND = re.compile(
    r"arg_max\([^;]{0,80}(graded_at|given_at)"
    r"|PARTITION BY[^)]*session_id[^)]*ORDER BY[^;]{0,60}(graded_at|given_at)"
)
# By which run each judge is compared with people.
OTHERS = {
    "evaluator/statistics/agreement/labelled_gates.sql",
    "evaluator/apps/server/pages/judge_verdicts.sql",
}
TABLE = re.compile(r"\b(FROM|JOIN|UPDATE|INTO) verdicts\b")
OF_THE_TABLE = {
    "evaluator/grading/save.py": "a grade is written",
    "evaluator/maintenance/runs_before.sql": "a run stays that has a verdict which is shown",
    "evaluator/apps/server/grade/record.py": "a verdict is on what a session has now",
    "evaluator/apps/lake/derive_slice.py": "the new rows of a lake",
    "evaluator/grading/stored_run.py": "a whole run, in the order in which it was written",
    "evaluator/grading/session_of_question.sql": "the sessions that one run graded by a question, no verdict",
    "evaluator/judge/get_verdict.sql": "another table of this name: the cache of a judge's answers",
    "evaluator/judge/put_verdict.sql": "the same",
}
BY_TIME = re.compile(r"ORDER BY[^;]{0,200}\bgraded_at\b")
# What else is in the order of its time: runs, and what they record of metrics and questions.
OF_RUNS = {
    "evaluator/grading/run_list.py",
    "evaluator/grading/runs.sql",
    "evaluator/agents/earlier_runs.sql",
    "evaluator/statistics/agreement/latest_run_of.sql",
    "evaluator/statistics/comparison/measured.sql",
    "evaluator/statistics/comparison/questions.sql",
    "evaluator/statistics/trends/trend.py",
    "evaluator/reports/html/runs_to_compare.sql",
    "evaluator/reports/html/session_verdicts.sql",
    "evaluator/apps/server/grade/sql/rolling_run.sql",
}


def found(pattern: re.Pattern[str]) -> set[str]:
    """Return the files with a match outside of the folder of results."""
    files = [path for kind in ("sql", "py") for path in (ROOT / "evaluator").rglob(f"*.{kind}")]
    names = {
        str(path.relative_to(ROOT)) for path in files if pattern.search(path.read_text(encoding="utf-8"))
    }
    return {name for name in names if not name.startswith("evaluator/results/")}


def test_nothing_else_says_which_verdict_of_a_session_is_the_latest() -> None:
    assert found(SECOND) == OTHERS
    assert found(BY_TIME) == OF_RUNS | OTHERS


def test_verdicts_are_read_from_the_views() -> None:
    assert found(TABLE) == set(OF_THE_TABLE)
