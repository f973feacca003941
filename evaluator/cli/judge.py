"""`spangrade judge`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from spangrade import Gates, JudgeOptions
from spangrade.evaluator.cli.declare import Only, WithDefault, commands_under
from spangrade.evaluator.cli.options import Printed, StoredIn
from spangrade.evaluator.cli.output import show
from spangrade.tracer.base.fields import REQUIRED, argument, option, values_of

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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementOptions:
    """What is compared with people's labels, by the options of an earlier version."""

    metric: str = option(
        REQUIRED,
        "The metric, of rules or judged, that is compared with labels; passed: the verdict.",
        metavar="NAME",
    )
    threshold: float | None = option(None, _THRESHOLD, metavar="VALUE")
    all: bool = option(False, "List all sessions on which they differ.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What the judge is asked about again."""

    measure: str = argument(
        REQUIRED, "The metric whose labelled sessions the judge is asked about again.", metavar="METRIC"
    )
    all: bool = option(False, "List all sessions with another verdict.")


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
    if judged.again:
        check(gates, judge, CheckOptions(measure=judged.metric, all=judged.all), at, printed)
    else:
        agreement(AgreementOptions(**values_of(judged, "metric", "threshold", "all")), at, printed)


def agreement(agreed: AgreementOptions, at: StoredIn, printed: Printed) -> None:
    """Compare the verdicts of a metric with people's labels, and correct its pass rate for its errors.

    Exit codes: 0 for a report, 2 bad input, 4 fewer than 20 sessions have a verdict and a label.
    """
    with at.opened() as opened:
        compared = opened.judge_agreement(agreed.metric, threshold=agreed.threshold)
    from spangrade.evaluator.reports.agreement import agreement_json, agreement_tables

    if printed.as_table:
        show(agreement_tables(compared, every=agreed.all))
    else:
        printed.write(agreement_json(compared), "differing")


def check(gates: Gates, judge: JudgeOptions, checked: CheckOptions, at: StoredIn, printed: Printed) -> None:
    """Ask the judge again about sessions that people labelled: whether it drifted, and how it is calibrated.

    Exit codes: 0 for a report, 2 bad input, 4 fewer than 20 sessions have a label and a verdict.
    """
    with at.opened() as opened:
        found = opened.check_judge(checked.measure, gates=gates, judge=judge)
    from spangrade.evaluator.reports.agreement import check_tables

    if printed.as_table:
        show(check_tables(found, every=checked.all))
    else:
        printed.write(found.to_json(), "calibration")


app = commands_under("Find out whether a judge is right.", judge, hidden=(agreement, check), cls=WithDefault)
