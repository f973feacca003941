"""Addresses: sockets that listen at one, without a server, and hosts that only this machine can reach.

To import a server takes 0.3 s of CPU.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

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


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(url: str) -> str:
    """Return the host of a URL, without its port; "" if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
