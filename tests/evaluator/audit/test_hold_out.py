"""What `audit --write` writes does not change the verdicts on sessions that it has not seen."""

from __future__ import annotations

import hold_out_of_audits
import pytest


@pytest.mark.skipif(not hold_out_of_audits.FOLDER.exists(), reason="the labelled runs are not there")
@pytest.mark.exhaustive
def test_what_is_written_breaks_no_verdict_on_an_unseen_trial() -> None:
    found = next(hold_out_of_audits.held_out(hold_out_of_audits.FOLDER, 5))
    assert found == hold_out_of_audits.Agreement(trial=0, runs=50, before=50, after=50)
