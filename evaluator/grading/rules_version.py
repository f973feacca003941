"""The version of the rules that judge a run: runs of two versions differ by more than their agents.

It is that of spangrade, with a digest of the source that derives sessions, measures them and gives verdicts:
checkouts of one version differ, too. Computing it takes 4 ms, once a process that stores a run.
"""

from __future__ import annotations

from functools import cache

from spangrade import __version__
from spangrade.evaluator.derive.sync.fingerprint import digest_of, fingerprint

_SOURCES = (
    "evaluator/metrics",
    "evaluator/grading/policy.py",
    "evaluator/grading/verdict.py",
    "converters/datasets/golden.py",
    "converters/datasets/call_rules.py",
)


@cache
def rules_version() -> str:
    """Return a text that is the same as long as the same session gets the same verdict."""
    digest = digest_of(_SOURCES)
    digest.update(fingerprint().encode())
    return f"{__version__} {digest.hexdigest()[:12]}"
