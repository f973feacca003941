"""The folders that tests read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "datasets" / "customer_service"  # the golden dataset that comes with the project
FIXTURES = ROOT / "tests" / "fixtures"
RECORDED = FIXTURES / "frameworks"  # one scenario, recorded with each framework
RECORDED_MORE = FIXTURES / "frameworks_more"  # the same with further frameworks
HISTORY = FIXTURES / "adk_eval_history"

# Beside the repository, not part of it: tests that need these are skipped without them.
SHARED = ROOT.parent / "shared"
CAPTURED = SHARED / "data" / "captured"
