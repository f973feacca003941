"""Who may send: clients with the token or, without one, clients that are not a web page of another site."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from grpc import StatusCode

from spangrade.tracer.base.sockets import host_of, is_loopback
from spangrade.tracer.receiver.limits import RejectedError


@dataclass(slots=True)
class Access:
    """The token that a request must have, if there is one. It may be replaced at any time.

    `allows`, if given, decides in place of the token: whether a key may "send" records, or "read" metrics;
    None as long as nobody needs a key.
    """

    token: str | None = None
    loopback: bool = True  # the receiver listens on this machine's loopback only
    allows: Callable[[str, str], bool | None] | None = None

    def check(self, headers: Mapping[str, str], purpose: str = "send") -> None:
        """Raise RejectedError if a request with these headers (by lower-case name) is not let in."""
        allowed = None if self.allows is None else self.allows(bearer(headers.get("authorization")), purpose)
        if allowed is not None:
            if not allowed:
                raise RejectedError(
                    401,
                    StatusCode.UNAUTHENTICATED,
                    f"no key, or one that may not {purpose}: expected Authorization: Bearer KEY",
                )
        elif not self.token:
            self.check_page(headers)
        elif not _has_token(headers.get("authorization"), self.token):
            raise RejectedError(
                401,
                StatusCode.UNAUTHENTICATED,
                "missing or wrong token: expected Authorization: Bearer TOKEN",
            )

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Raise RejectedError if a web page of another site may have sent the request.

        Such a page reaches the loopback through the browser; with a name that it lets point to 127.0.0.1 (DNS
        rebinding), even as if from the same site. A page does not know a token, so with one all are let in.
        """
        if self.token or (self.allows is not None and self.allows("", "send") is not None):
            return
        for header, prefix in (("origin", ""), ("host", "//")):
            if header not in headers or not (self.loopback or header == "origin"):
                continue
            if not is_loopback(host_of(prefix + headers[header])):
                value = headers[header][:80]
                message = f"the header {header.title()} is {value!r}: expected this machine, or set a token"
                raise RejectedError(403, StatusCode.PERMISSION_DENIED, message)


def _has_token(header: str | None, token: str) -> bool:
    return hmac.compare_digest(bearer(header).encode(), token.encode())


def bearer(header: str | None) -> str:
    """Return the token in a header `Authorization`, empty if it has none."""
    scheme, _, given = (header or "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""
