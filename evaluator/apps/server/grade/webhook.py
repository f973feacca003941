"""Failing sessions for a webhook: the body of a message, its signature, and sending it.

The headers and the signature are those of https://www.standardwebhooks.com.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from spangrade.evaluator.apps.server.grade.deliveries import MAX_WAIT_S, Attempt, Delivery
from spangrade.evaluator.grading.policy import threshold_text
from spangrade.evaluator.grading.run import Grade
from spangrade.evaluator.metrics import Metric, Score
from spangrade.evaluator.metrics.causes import span_ids
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import FieldError

SECRET_VARIABLE = "SPANGRADE_WEBHOOK_SECRET"  # noqa: S105 (the name of a variable)
EVENT = "session.failed"

_TRIES = 3
_GONE = 410
_RETRIED = (408, 425, 429, 500, 502, 503, 504)


def message_id(session_id: str, content: str, gates: str) -> str:
    """Return the id of the message about a session: the same for the same session, content and gates."""
    parts = "\0".join((session_id, content, gates)).encode("utf-8", "surrogatepass")
    return f"msg_{hashlib.blake2b(parts, digest_size=16).hexdigest()}"


def failed_session(
    session: Session, grade: Grade, metrics: Mapping[str, Metric], run_id: str, now_ns: int
) -> dict[str, Any]:
    """Return the body of the message about a session that failed, as JSON values."""
    failed = [
        {
            "metric": name,
            "value": outcome.value,
            "expected": threshold_text(metrics[name]) if name in metrics else "",
            "reason": outcome.reason,
            "span_ids": list(span_ids(outcome.evidence)),
        }
        for name, outcome in grade.outcomes.items()
        if isinstance(outcome, Score) and outcome.passed is False
    ]
    return {
        "type": EVENT,
        "timestamp": _iso(now_ns),
        "data": {
            "session_id": grade.session_id,
            "question_id": grade.question_id,
            "verdict": grade.verdict.value,
            "reason": grade.reason,
            "run_id": run_id,
            "started_at": None if session.start_ns is None else _iso(session.start_ns),
            "agents": list(session.agents or ()),
            "trace_ids": list(dict.fromkeys(trace for turn in session.turns for trace in turn.trace_ids)),
            "failed": failed,
        },
    }


def failed_text(failed: Mapping[str, Any]) -> str:
    """Return the text for Slack about a session that failed, of the `data` of its message."""
    name = escaped(failed["session_id"])
    shown = f"<{failed['url']}|{name}>" if "url" in failed else name
    return f"*Failed: {shown}*\n{escaped(failed['reason'])}"


def escaped(text: str) -> str:
    """Return a text as Slack shows it: its mark-up has three characters of its own."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def signature(secret: bytes, message: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header `webhook-signature`."""
    signed = b".".join((message.encode(), str(timestamp).encode(), body))
    return f"v1,{base64.b64encode(hmac.digest(secret, signed, 'sha256')).decode()}"


def secret_from_environment() -> bytes:
    """Return the key that messages are signed with: $SPANGRADE_WEBHOOK_SECRET.

    After `whsec_` it is base64, else any text. Raises InputError if it is missing or not valid.
    """
    text = os.environ.get(SECRET_VARIABLE, "")
    if not text:
        raise InputError(f"{SECRET_VARIABLE} is not set: it signs the messages of a webhook")
    if not text.startswith("whsec_"):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except binascii.Error as error:
        raise InputError(f"{SECRET_VARIABLE}: expected base64 after whsec_") from error


class Webhook:
    """Sends messages to a URL, signed with a secret; a failed attempt is repeated at once, twice at most.

    The first repetition follows `pause_s` seconds after the attempt, the second twice as long; all three
    together take at most `deadline_s`. Of an answer only the status and the headers are read, whatever
    follows them, and redirects are not followed. The URL is a secret: messages and logs, those of the HTTP
    client too, have its scheme, host and port.
    """

    def __init__(
        self, url: str, secret: bytes | None, *, pause_s: float = 0.5, deadline_s: float = 15.0
    ) -> None:
        """Raise InputError for a URL that is not HTTP."""
        import httpx2

        try:
            parts = urlsplit(url)
            port = f":{parts.port}" if parts.port else ""
            self._url = httpx2.URL(url)
        except (ValueError, httpx2.InvalidURL):
            raise FieldError("options.webhook", "expected a URL with http or https") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            problem = f"expected a URL with http or https, found {parts.scheme[:10]!r}"
            raise FieldError("options.webhook", problem)
        self._shown = f"{parts.scheme}://{parts.hostname}{port}"
        self._secret = secret
        self._pause_s = pause_s
        self._deadline_s = deadline_s
        self._tls = httpx2.create_ssl_context()
        self._sender = ThreadPoolExecutor(1, "webhook")  # its event loop is not one that the caller runs
        logging.getLogger("httpx2").addFilter(self._hide_url)

    def close(self) -> None:
        """End the thread that sends, and leave the log of the HTTP client alone."""
        self._sender.shutdown()
        logging.getLogger("httpx2").removeFilter(self._hide_url)

    def send(self, delivery: Delivery, now_ns: int) -> Attempt:
        """Send a message. It was accepted if the receiver answers with a status from 200 to 299."""
        body = delivery.body.encode()
        timestamp = now_ns // 10**9
        headers = {
            "Content-Type": "application/json",
            "webhook-id": delivery.id,
            "webhook-timestamp": str(timestamp),
        }
        if self._secret is not None:
            headers["webhook-signature"] = signature(self._secret, delivery.id, timestamp, body)
        status: int | None = None
        received: Mapping[str, str] = {}
        try:
            status, received = self._sender.submit(asyncio.run, self._post(body, headers)).result()
        except TimeoutError:
            error = f"no answer within {self._deadline_s:g} s"
        except Exception as raised:  # noqa: BLE001 (whatever a receiver answers, the next message is sent)
            error = f"{type(raised).__name__}: cannot be reached"
        if status is None:
            return Attempt(delivery, f"{self._shown}: {error}", reached=False)
        if 200 <= status < 300:
            return Attempt(delivery)
        wait_s, note = _retry_after(received.get("retry-after", ""), now_ns)
        refused = f"{self._shown} answered {status_text(status)}{note}"
        return Attempt(delivery, refused, final=status == _GONE, wait_s=wait_s)

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str]]:
        """Return the status and the headers of the last answer, up to three. Raises TimeoutError."""
        import httpx2

        async with (
            asyncio.timeout(self._deadline_s),
            httpx2.AsyncClient(verify=self._tls, timeout=self._deadline_s, follow_redirects=False) as client,
        ):
            for attempt in range(1, _TRIES + 1):
                try:
                    async with client.stream("POST", self._url, content=body, headers=headers) as answer:
                        if attempt == _TRIES or answer.status_code not in _RETRIED:
                            return answer.status_code, answer.headers
                except httpx2.TransportError:
                    if attempt == _TRIES:
                        raise
                await asyncio.sleep(self._pause_s * attempt)
        raise AssertionError("the last attempt returns or raises")

    def _hide_url(self, record: logging.LogRecord) -> bool:
        arguments = record.args if isinstance(record.args, tuple) else ()
        record.args = tuple(self._shown if one == self._url else one for one in arguments)
        return True


def status_text(status: int) -> str:
    """Return a status with the words of the standard: those of the receiver may be anything."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _retry_after(text: str, now_ns: int) -> tuple[float, str]:
    """Return how many seconds a receiver asks to wait, at most a day, and a note if it asks for more.

    The header has seconds or a date; anything else, and what is past, is 0.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        digits = text.lstrip("0")
        asked_s = float(digits or 0) if len(digits) < 10 else float("inf")
    else:
        try:
            asked_s = parsedate_to_datetime(text).timestamp() - now_ns / 1e9
        except (ValueError, OverflowError, TypeError):
            return 0.0, ""
    if asked_s > MAX_WAIT_S:
        return MAX_WAIT_S, "; it asks to wait for more than a day"
    return max(0.0, asked_s), ""


def _iso(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat()
