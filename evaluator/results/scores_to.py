"""Where the scores of a run are sent, as evaluation events of OpenTelemetry."""

from __future__ import annotations

from dataclasses import dataclass

from spangrade.tracer.base.fields import FieldError, option

SEND = "Send the scores, each once, as evaluation events to an OTLP receiver."


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoresTo:
    """Where the scores of a run are sent."""

    send: str | None = option(None, SEND, metavar="URL")
    send_dry_run: bool = option(False, "With --send: print what would be sent.")

    def __post_init__(self) -> None:
        if self.send is not None:
            receiver_url(self.send)
        elif self.send_dry_run:
            raise FieldError("send_dry_run", "expected --send, too")


def receiver_url(url: str, field: str = "send") -> str:
    """Return the URL of an OTLP receiver in one form. Raises FieldError, of `field`, for another URL."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        fits = False
    if not fits or "@" in parts.netloc or parts.query or parts.fragment:
        expected = "expected http://HOST:PORT or https://…; keys are given in the environment"
        if url.startswith(("phoenix+", "mlflow+")):
            expected += (
                "; did you mean --send-dry-run, whose events a script hands over (docs/production.md)?"
            )
        raise FieldError(field, expected)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1/logs')}"
