"""What is loaded before these tests: pytester forgets what a run inside this process imports first."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def _numpy() -> None:
    """scipy needs numpy, which cannot be loaded twice."""
    import scipy.stats  # noqa: F401
