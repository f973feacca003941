"""Hosts that only this machine can reach, and the host that a request names."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


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
