"""What a webhook gets of alarms: a body as of Standard Webhooks, or a text as Slack has it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from spangrade.evaluator.apps.server.grade.options import Pages, WebhookFormat
from spangrade.evaluator.apps.server.grade.webhook import escaped
from spangrade.evaluator.results.alarms import Alarm, AlarmChange

_MOST_STREAMS = 20  # in the text of a message


def change_id(change: AlarmChange) -> str:
    """Return the id of the message about a change: always the same for it."""
    parts = f"{change.alarms[0].alarm_id} {change.is_over}".encode()
    return f"msg_{hashlib.blake2b(parts, digest_size=16).hexdigest()}"


def change_body(
    change: AlarmChange, kind: WebhookFormat, now_ns: int, pages: Pages | None = None
) -> Mapping[str, Any]:
    """Return the body of the message about a change, as JSON values.

    `pages` are where messages lead; without them there are ids and no addresses.
    """
    if kind is WebhookFormat.SLACK:
        return {"text": _slack_text(change, pages)}
    first = change.alarms[0]
    return {
        "type": "alert.ended" if change.is_over else "alert.started",
        "timestamp": datetime.fromtimestamp(now_ns / 1e9, UTC).isoformat(),
        "data": {
            "alarm_id": first.alarm_id,
            "alert": first.alert,
            "cause": first.cause,
            "streams": [_stream(one, pages) for one in change.alarms],
        },
    }


def _stream(alarm: Alarm, pages: Pages | None) -> dict[str, Any]:
    found = alarm.to_json()
    for name in ("alarm_id", "alert", "cause", "filters"):
        del found[name]
    if pages is not None:
        found["sessions_url"] = pages.sessions(alarm.filters)
        found["example_urls"] = [pages.session(one) for one in alarm.examples]
    return found


def _slack_text(change: AlarmChange, pages: Pages | None) -> str:
    lines = [f"*{'Over' if change.is_over else 'Alarm'}: {escaped(change.alarms[0].alert)}*"]
    for alarm in change.alarms[:_MOST_STREAMS]:
        line = f"• {escaped(alarm.text)}"
        if pages is not None:
            links = [f"<{pages.sessions(alarm.filters)}|sessions>"]
            links += [f"<{pages.session(one)}|{n}>" for n, one in enumerate(alarm.examples, 1)]
            line += f" ({' '.join(links)})"
        lines.append(line)
    if (left := len(change.alarms) - _MOST_STREAMS) > 0:
        lines.append(f"… and {left:,} more")
    return "\n".join(lines)
