"""How `spangrade serve --only grade` looks for sessions, and where it sends what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from spangrade.evaluator.grading.alerts import AlertRule
from spangrade.evaluator.results.scores_to import SEND, receiver_url
from spangrade.tracer.base.fields import OWN, FieldError, option
from spangrade.tracer.base.quantities import parsed_time, seconds_of


class WebhookFormat(StrEnum):
    """What the body of a message is like."""

    STANDARD = "standard"
    SLACK = "slack"


class PageLinks(Protocol):
    """The addresses of pages under that of a server."""

    def sessions(self, **filters: str) -> str:
        """Return the address of the list of sessions, with values for its filters."""

    def session(self, session_id: str) -> str:
        """Return the address of a session."""


class Pages(NamedTuple):
    """The pages of a server, to which messages lead."""

    url: str
    links: PageLinks

    def session(self, session_id: str) -> str:
        """Return the whole address of a session."""
        return self.url + self.links.session(session_id)

    def sessions(self, filters: Mapping[str, str]) -> str:
        """Return the whole address of the list of the sessions that filters choose."""
        return self.url + self.links.sessions(**filters)


def checked_public_url(url: str) -> str:
    """Return the address of pages without a slash at its end. Raises FieldError for what is none."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise FieldError("options.public_url", "expected one such as https://spans.example.com", repr(url))
    return url.rstrip("/")


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """When sessions are graded, and where verdicts are sent.

    A session is graded when nothing has arrived for it for `idle_s`; every `every_s` the database is looked
    at; both are seconds, or a text such as `5m`. With `once` it is looked at once. Sessions that fail are
    sent to the URL `webhook`, signed with the key in SPANGRADE_WEBHOOK_SECRET; with `otlp` outcomes are
    sent as events and metrics to the endpoint that OTEL_EXPORTER_OTLP_ENDPOINT names, with `send` scores as
    `grade` sends them. Of sessions that ended before the first start by the same gates nothing is sent,
    unless they ended after `notify_since`.

    With `alerts` the webhook gets these, in place of a message for each session that fails. `public_url` is
    the address of the pages, for links in messages, and `links` returns the addresses under it.
    """

    idle_s: float | str = option(
        "5m", "Grade a session when nothing has arrived for it for so long.", name="--idle", metavar="5m"
    )
    every_s: float | str = option(
        "20s", "How often to look for sessions that are idle.", name="--every", metavar="20s"
    )
    once: bool = option(False, "Grade what is idle now, send what is due, and exit.")
    notify_since: str | datetime | None = option(
        None,
        "Send what ended since then, too, and not only since the first start by these gates.",
        metavar="TIME",
        setting=OWN,
    )
    webhook: str | None = option(
        None,
        "Send each session that fails there, signed with $SPANGRADE_WEBHOOK_SECRET.",
        metavar="URL",
        variable="SPANGRADE_WEBHOOK",
        setting=OWN,
    )
    webhook_format: WebhookFormat = option(
        WebhookFormat.STANDARD, "The body of messages: standard (Standard Webhooks) or slack.", setting=OWN
    )
    otlp: bool = option(False, "Send events and metrics over OTLP, as OTEL_EXPORTER_OTLP_* say.", setting=OWN)
    send: str | None = option(None, SEND, metavar="URL")
    public_url: str | None = option(
        None, "The address of the pages, for links in messages.", metavar="URL", setting=OWN
    )
    alerts: tuple[AlertRule, ...] = ()
    links: PageLinks | None = None

    @property
    def pages(self) -> Pages | None:
        """The pages to which messages lead; None if their address is not known."""
        return None if self.public_url is None or self.links is None else Pages(self.public_url, self.links)

    @property
    def notify_since_ns(self) -> int | None:
        """The time since which what ended is sent, in ns since the epoch."""
        return parsed_time("options.notify_since", self.notify_since)

    def __post_init__(self) -> None:
        self.notify_since_ns  # noqa: B018 (it raises)
        if self.send is not None:
            receiver_url(self.send, "options.send")
        if self.public_url is not None:
            object.__setattr__(self, "public_url", checked_public_url(self.public_url))
        for name in ("idle_s", "every_s"):
            try:
                seconds_of(getattr(self, name))
            except ValueError as error:
                raise FieldError(f"options.{name}", str(error)) from None
