"""What tests of several commands need."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def port() -> Iterator[str]:
    """Return a port that is in use: the commands that serve end."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield str(listener.getsockname()[1])
