"""The latest verdict of a session, and its latest scores, are defined once: in `evaluator/results`."""

from __future__ import annotations

import re

from paths import ROOT

SECOND = re.compile(
    r"arg_max\([^;]{0,80}(graded_at|given_at)"
    r"|PARTITION BY[^)]*session_id[^)]*ORDER BY[^;]{0,60}(graded_at|given_at)"
)
# By which run a judge is compared with people: that of some judges which measured what is labelled.
OTHERS = {"evaluator/statistics/agreement/labelled_gates.sql"}


def test_nothing_else_says_which_verdict_of_a_session_is_the_latest() -> None:
    files = [path for kind in ("sql", "py") for path in (ROOT / "evaluator").rglob(f"*.{kind}")]
    found = {str(path.relative_to(ROOT)) for path in files if SECOND.search(path.read_text(encoding="utf-8"))}
    assert {name for name in found if not name.startswith("evaluator/results/")} == OTHERS
    assert {name for name in found if name.startswith("evaluator/results/")} == {
        "evaluator/results/latest_scores.sql",
        "evaluator/results/place_verdicts.sql",
    }
