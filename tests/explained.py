"""How often `explain` names the cause of failures where it is known, and how often one where there is none.

python tests/explained.py [RUNS] [SESSIONS]    20 runs of each cause, 2,000 sessions

The sessions differ in their tools, arguments, models, versions and errors, which are independent of each
other. A cause makes 9 of 10 sessions fail that have it, and one of 20 of the others fails, all for the same
reason; without a cause one of 10 fails. Prints for each cause in how many runs it is what a cluster is named
after (its first fact), for two causes at once how often both are, and without one in how many runs a fact is
shown. Fails if a cause is found in fewer than 90%, or a fact is shown in more than 10% without one.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from many_sessions import write_sessions

import spangrade
from spangrade.tracer.store import Store

CAUSES = {  # the fact, and the condition in SQL of the sessions that have it
    "version 1.3": "agent_version = '1.3'",
    "model gpt-5": "models LIKE '%gpt-5%'",
    "does not call refund": "NOT tools LIKE '%\"refund\"%'",
    "calls search again": "session_id IN (SELECT session_id FROM derived.tool_interactions "
    "WHERE tool_name = 'search' GROUP BY session_id HAVING count(*) > 1)",
    'refund(reason) = "late by 7 days"': "session_id IN (SELECT session_id FROM derived.tool_interactions "
    "WHERE tool_name = 'refund' AND input_arguments LIKE '%late by 7 days%')",
    "tool refund failed": "errors > 0",
}
PAIRS = (
    ("version 1.3", "tool refund failed"),
    ("model gpt-5", 'refund(reason) = "late by 7 days"'),
    ("calls search again", "tool refund failed"),
)
FOUND, FALSE = 0.9, 0.1


def facts_shown(db: Path, causes: Sequence[str], seed: int) -> list[str]:
    """Return the first fact of each cluster of failures with these causes."""
    condition = " OR ".join(f"({CAUSES[cause]})" for cause in causes) or "false"
    others = 0.05 if causes else 0.1
    with Store.open(db) as store, store.transaction():
        store.query(
            "UPDATE verdicts SET reason = 'mine: 0.2, expected >= 0.5', verdict = if("
            f"hash(session_id, {seed}) % 1000 < 1000 * if(session_id IN "
            f"(SELECT session_id FROM derived.sessions WHERE {condition}), 0.9, {others}), "
            "'failed', 'passed')"
        )
    found = spangrade.open(db).explain("run-1")
    return [one.facts[0].text for one in found if one.facts]


def main() -> None:
    """Print the shares; exit with 1 if one misses its bound."""
    numbers = [int(one) for one in sys.argv[1:]]
    runs, sessions = (*numbers, 20, 2000)[:2] if len(numbers) != 1 else (numbers[0], 2000)
    planted = [*((one,) for one in CAUSES), *PAIRS]
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "many.duckdb"
        write_sessions(db, sessions)
        for causes in planted:
            found = sum(set(causes) <= set(facts_shown(db, causes, seed)) for seed in range(runs))
            print(f"{found / runs:6.1%} of {runs}  {' and '.join(causes)}")
            if found < FOUND * runs:
                missed.append(causes)
        false = sum(bool(facts_shown(db, (), seed)) for seed in range(10 * runs))
        print(f"{false / runs / 10:6.1%} of {10 * runs}  a fact without a cause")
    if missed or false > FALSE * 10 * runs:
        sys.exit(f"below the bound: {missed or 'facts without a cause'}")


if __name__ == "__main__":
    main()
