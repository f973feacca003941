"""A call as a line that people read and write: `refund {"amount": 5}`."""

from __future__ import annotations

import json
from typing import Any

from spangrade.evaluator.session import ToolInteraction
from spangrade.tracer.base.json_text import parse_written


def call_of_line(line: str) -> dict[str, Any]:
    """Return the reference that a line is: `refund {"amount": 5}`. Raises JSONDecodeError."""
    name, _, arguments = line.strip().partition(" ")
    return {"tool_name": name} | ({"input_arguments": parse_written(arguments)} if arguments.strip() else {})


def call_line(call: ToolInteraction) -> str:
    """Return a call in a line: `refund {"amount": 5}`."""
    return f"{call.tool_name} {json.dumps(call.input_arguments, ensure_ascii=False, default=repr)}"
