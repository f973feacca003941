"""The switch for content: whether messages, arguments, results and state are recorded in spans."""

from __future__ import annotations

import logging
import os

from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE

_log = logging.getLogger("spangrade")

# Instrumentations use the variable as a boolean and, more recently, to choose between spans and events.
# Content is recorded on spans here, so "event_only" is off.
_ON = frozenset({"true", "1", "span_only", "span_and_event"})
_OFF = frozenset({"false", "0", "no_content", "event_only"})

_override: bool | None = None
_last_unknown: str | None = None


def set_content_capture(capture: bool | None) -> None:
    """Switch content capture on or off, whatever the environment says; None leaves it to the environment."""
    global _override
    _override = capture


def is_off_by_argument() -> bool:
    """Return whether the application itself has switched content off, not the environment."""
    return _override is False


def content_captured() -> bool:
    """Return whether content is recorded: yes, unless it is switched off.

    An unknown value of the variable switches it off: content must not be recorded by mistake.
    """
    global _last_unknown
    if _override is not None:
        return _override
    setting = os.environ.get(CAPTURE_CONTENT_VARIABLE, "").strip().lower()
    if not setting or setting in _ON:
        return True
    if setting not in _OFF and setting != _last_unknown:
        _last_unknown = setting
        _log.warning(
            "%s is %r: no content is recorded; use one of %s",
            CAPTURE_CONTENT_VARIABLE,
            setting,
            ", ".join(sorted(_ON | _OFF)),
        )
    return False
