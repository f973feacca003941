"""What the test suite runs of a table, or of generated examples; `-m exhaustive` runs the rest.

`@pytest.mark.short_form("argument", n)`: the suite runs each nth value of an argument of the test. A property
(`@given`) has a quarter of its examples in the suite, and runs with all of them with `-m exhaustive`.
"""

from __future__ import annotations

import os
from typing import Any

import pytest


def load_profile(exhaustive: bool) -> None:
    """Load the profile of hypothesis: HYPOTHESIS_PROFILE, else the short or the whole one."""
    try:
        from hypothesis import HealthCheck, settings
    except ImportError:  # the environments of the frameworks and of Vertex are without it
        return
    whole = settings(
        deadline=None,  # no test depends on how busy the machine is
        # Fixtures that are made once for all examples of a test: a store, which each example fills anew.
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        print_blob=True,
        # CI tests the same examples each time; anywhere else each run looks at others.
        derandomize="CI" in os.environ,
        max_examples=100,
    )
    settings.register_profile("short", whole, max_examples=25)
    settings.register_profile("whole", whole)
    # Which .ci/long sets: the fuzzers of spans run 20,000 examples.
    settings.register_profile("long", whole)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "whole" if exhaustive else "short"))


def examples(whole: int) -> int:
    """Return how many examples a property is to have whose whole form has this number."""
    from hypothesis import settings

    return max(1, whole // 4) if settings.get_current_profile_name() == "short" else whole


def mark_exhaustive(items: list[Any], *, exhaustive: bool) -> None:
    """Mark what is not in the short form; in an exhaustive run, each property too."""
    for item in items:
        for marker in item.iter_markers("short_form"):
            argument, every = marker.args
            if item.callspec.indices[argument] % every:
                item.add_marker(pytest.mark.exhaustive)
        if exhaustive and getattr(item.obj, "is_hypothesis_test", False):
            item.add_marker(pytest.mark.exhaustive)
