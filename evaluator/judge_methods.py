"""The method of a database that compares a metric's verdicts with people's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spangrade.evaluator.derive.sync.intake import Callbacks
from spangrade.evaluator.derive.sync.up_to_date import up_to_date

if TYPE_CHECKING:
    from spangrade.evaluator.statistics.agreement.agreement import Agreement


class JudgeMethods:
    """What a `Database` does to find out whether a judge is right."""

    path: Path
    _callbacks: Callbacks

    def judge_agreement(self, metric: str, *, threshold: float | None = None) -> Agreement:
        """Return how far the verdicts of a metric agree with the labels that people gave for it.

        A session's verdict is that of the latest run that measured the metric; with a `threshold`, a score
        that meets it passes, whatever its run required. Raises InputError if no run measured the metric or
        scipy is not installed, and TooFewLabelsError if fewer than 20 sessions have a verdict and a label.
        """
        from spangrade.evaluator.statistics.agreement.agreement import agreement
        from spangrade.evaluator.statistics.agreement.stored import stored_labels, stored_verdicts

        with up_to_date(self.path, self._callbacks) as store:
            judged = stored_verdicts(store, metric, threshold)
            labels = stored_labels(store, metric)
        return agreement(metric, judged, labels)
