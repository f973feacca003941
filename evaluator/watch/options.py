"""How `spangrade watch` looks for sessions, and where it sends what it finds."""

from __future__ import annotations

from dataclasses import dataclass

from spangrade.tracer.fields import FieldError, option
from spangrade.tracer.quantities import seconds_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoresTo:
    """Where the scores of a run are sent, as OpenTelemetry evaluation events."""

    otlp: str | None = option(
        None, "Send the scores as evaluation events over OTLP, each once.", metavar="URL", rare=True
    )
    otlp_dry_run: bool = option(False, "With --otlp: print what would be sent.", rare=True)

    def __post_init__(self) -> None:
        if self.otlp is not None:
            endpoint_of(self.otlp)
        elif self.otlp_dry_run:
            raise FieldError("otlp_dry_run", "expected --otlp, too")


def endpoint_of(url: str) -> str:
    """Return the base of an OTLP receiver's URL, without `/v1/logs`. Raises FieldError for another URL."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        fits = False
    if not fits or "@" in parts.netloc or parts.query or parts.fragment:
        raise FieldError(
            "otlp",
            "expected http://HOST:PORT or https://…; keys are given in $OTEL_EXPORTER_OTLP_HEADERS",
        )
    path = parts.path.rstrip("/").removesuffix("/v1/logs")
    return f"{parts.scheme}://{parts.netloc}{path}"


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """When sessions are graded, and where verdicts are sent.

    A session is graded when nothing has arrived for it for `idle_s`; every `every_s` the database is looked
    at; both are seconds, or a text such as `5m`. With `once` it is looked at once. Sessions that fail are
    sent to the URL `webhook`, signed with the key in SPANGRADE_WEBHOOK_SECRET; with `otlp` outcomes are
    sent as events and metrics to the endpoint that OTEL_EXPORTER_OTLP_ENDPOINT names. Of sessions that ended
    before the first start by the same gates nothing is sent, unless `send_history`.
    """

    idle_s: float | str = option(
        "5m", "Grade a session when nothing has arrived for it for so long.", name="--idle", metavar="5m"
    )
    every_s: float | str = option(
        "30s", "How often to look for sessions that are idle.", name="--every", metavar="30s"
    )
    once: bool = option(False, "Grade what is idle now, send what is due, and exit.")
    send_history: bool = option(
        False, "Send what ended before the first start by these gates, too.", rare=True
    )
    webhook: str | None = option(
        None,
        "Send each session that fails there, signed with $SPANGRADE_WEBHOOK_SECRET.",
        metavar="URL",
        variable="SPANGRADE_WEBHOOK",
    )
    otlp: bool = option(False, "Send events and metrics over OTLP, as OTEL_EXPORTER_OTLP_* say.")

    def __post_init__(self) -> None:
        for name in ("idle_s", "every_s"):
            try:
                seconds_of(getattr(self, name))
            except ValueError as error:
                raise FieldError(f"options.{name}", str(error)) from None
