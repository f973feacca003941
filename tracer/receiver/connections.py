"""Connections over HTTP: how many there may be, how long a request's headers may take, and their end."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from spangrade.tracer.receiver.limits import Limits

_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


def limited_protocol(limits: Limits) -> type[H11Protocol]:
    """Return uvicorn's HTTP protocol with limits: it has none for a connection that sends nothing."""

    class LimitedProtocol(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.write(_BUSY)
                transport.close()
            else:
                self._wait_for_headers()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is None or self.cycle.response_complete:
                self._wait_for_headers()  # of the next request on this connection
            else:
                self._stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def shutdown(self) -> None:
            is_idle = self.cycle is None or self.cycle.response_complete
            if not self.transport.is_closing():  # closed twice, one over TLS can be neither asked nor aborted
                super().shutdown()
            if is_idle and not self.transport.get_write_buffer_size():
                self.transport.abort()  # over TLS, closing waits for the answer of the client, which is idle

        def _wait_for_headers(self) -> None:
            if self._deadline is None:
                self._deadline = self.loop.call_later(limits.headers_s, self._give_up)

        def _give_up(self) -> None:
            if not self.transport.is_closing():
                self.transport.close()

        def _stop_waiting(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return LimitedProtocol
