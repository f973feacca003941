"""Sockets that listen: without a server yet, which takes 0.3 s of CPU to import."""

from __future__ import annotations

import socket

from spangrade.tracer.base.errors import InputError


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """Return a socket that listens at an address, 0 for any free port. Raises InputError if it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Name the protocol: otherwise asyncio leaves Nagle's algorithm on, and an answer waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)  # requests wait until the server takes them
    except OSError as error:
        listener.close()
        raise InputError(f"{host}:{port}: cannot listen: {error.strerror}; name another {option}") from None
    return listener
