"""`spangrade judge`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from spangrade import Gates, JudgeOptions
from spangrade.evaluator.cli.declare import Only
from spangrade.evaluator.cli.options import Printed, StoredIn
from spangrade.evaluator.cli.output import show
from spangrade.tracer.base.fields import REQUIRED, argument, option

_THRESHOLD = "What a score needs to pass; else its run's own verdict counts."


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReport:
    """What is compared with people's labels."""

    metric: str = argument(
        REQUIRED, "The metric that is compared with labels; passed: the verdict of a session."
    )
    again: bool = option(False, "Ask the judge again about the labelled sessions: did it drift?")
    threshold: float | None = option(None, _THRESHOLD, metavar="VALUE")
    all: bool = option(False, "List all sessions on which they differ.")


def judge(
    gates: Annotated[Gates, Only("metrics_files")],
    judge: JudgeOptions,
    judged: JudgeReport,
    at: StoredIn,
    printed: Printed,
) -> None:
    """Compare the verdicts of a metric with people's labels, and correct its pass rate for its errors.

    With --again the judge is asked anew. Exit codes: 0 for a report, 2 bad input, 4 fewer than 20 sessions
    have a verdict and a label.
    """
    from spangrade.evaluator.reports.agreement import agreement_json, agreement_tables, check_tables

    with at.opened() as opened:
        if judged.again:
            found = opened.check_judge(judged.metric, gates=gates, judge=judge)
            shown, value, rows = check_tables(found, every=judged.all), found.to_json(), "calibration"
        else:
            compared = opened.judge_agreement(judged.metric, threshold=judged.threshold)
            shown, value = agreement_tables(compared, every=judged.all), agreement_json(compared)
            rows = "differing"
    if printed.as_table:
        show(shown)
    else:
        printed.write(value, rows)
