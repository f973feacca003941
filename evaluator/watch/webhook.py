"""Failing sessions for a webhook: the body of a message, its signature, and sending it.

The headers and the signature are those of https://www.standardwebhooks.com.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from spangrade.evaluator.grading.grade import Grade
from spangrade.evaluator.grading.policy import threshold_text
from spangrade.evaluator.metrics import Metric, Score
from spangrade.evaluator.session import Session
from spangrade.evaluator.watch.deliveries import Delivery, Outcome
from spangrade.tracer.errors import InputError
from spangrade.tracer.fields import FieldError

SECRET_VARIABLE = "SPANGRADE_WEBHOOK_SECRET"  # noqa: S105 (the name of a variable)
EVENT = "session.failed"

_TIMEOUT_S = 10.0
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
            "span_ids": list(outcome.evidence),
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
    """Sends messages to a URL, each signed; a failed attempt is repeated at once, twice at most.

    The first repetition follows `pause_s` seconds after the attempt, the second twice as long.
    """

    def __init__(self, url: str, secret: bytes, *, pause_s: float = 0.5) -> None:
        """Raise InputError for a URL that is not HTTP."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise FieldError("options.webhook", f"expected a URL with http or https, found {url!r}")
        self._url = url
        self._secret = secret
        self._session = requests.Session()
        retry = Retry(
            _TRIES - 1,
            backoff_factor=pause_s,
            status_forcelist=_RETRIED,
            allowed_methods=None,
            raise_on_status=False,
            respect_retry_after_header=False,  # it may ask for an hour: `deliveries` waits as long
        )
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=retry))

    def send(self, delivery: Delivery, now_ns: int) -> Outcome:
        """Send a message. It was accepted if the receiver answers with a status from 200 to 299."""
        body = delivery.body.encode()
        timestamp = now_ns // 10**9
        headers = {
            "Content-Type": "application/json",
            "webhook-id": delivery.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self._secret, delivery.id, timestamp, body),
        }
        try:
            answer = self._session.post(
                self._url, data=body, headers=headers, timeout=_TIMEOUT_S, allow_redirects=False
            )
        except requests.RequestException as error:
            return Outcome(delivery, f"{type(error).__name__}: {_host(self._url)} cannot be reached", False)
        if 200 <= answer.status_code < 300:
            return Outcome(delivery)
        refused = f"{_host(self._url)} answered {answer.status_code} {answer.reason}"
        wait = answer.headers.get("Retry-After", "")
        wait_s = float(wait) if wait.isdecimal() else 0.0
        return Outcome(delivery, refused, final=answer.status_code == _GONE, wait_s=wait_s)


def _host(url: str) -> str:
    """Return the part of a URL that holds no secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"


def _iso(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat()
