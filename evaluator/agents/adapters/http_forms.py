"""The body that a server expects and the place of its answer, where they are not ours."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.json_text import parse_written, refusal

_PLACEHOLDER = re.compile(r"\{(text|session_id|question_id|turn)\}")
_PATH = re.compile(r"\$(?:\.[^.\[\]\s]+|\[\d+\])*")
_STEP = re.compile(r"\.([^.\[\]\s]+)|\[(\d+)\]")
_MAX_KEYS = 10  # that a message names


def template_of(body: str) -> Any:
    """Return the template that a text is. Raises InputError for one that is not JSON or has no `{text}`."""
    try:
        template = parse_written(body)
    except json.JSONDecodeError as error:
        raise InputError(f'http_body: expected JSON, such as {{"q": "{{text}}"}}; {refusal(error)}') from None
    if "{text}" not in body:
        raise InputError("http_body: expected {text} in it, where the user's message goes")
    return template


def filled(body: str, values: Mapping[str, Any]) -> Any:
    """Return a template with values in place of their names; a name alone becomes the value itself."""

    def fill(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: fill(item) for key, item in part.items()}
        if isinstance(part, list):
            return list(map(fill, part))
        if not isinstance(part, str):
            return part
        if (alone := _PLACEHOLDER.fullmatch(part)) is not None:
            return values[alone[1]]
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), part)

    return fill(template_of(body))


def path_of(text: str) -> list[str | int]:
    """Return the steps of a path. Raises InputError for a text that is none."""
    if _PATH.fullmatch(text) is None:
        raise InputError(
            f"http_reply: expected a path such as $.data.reply or $.choices[0].text, found {text!r}"
        )
    return [key or int(number) for key, number in _STEP.findall(text)]


def at_path(value: Any, text: str) -> Any:
    """Return what an answer has at a path. Raises ValueError, with what is there, if it has nothing there."""
    before = "$"
    for step in path_of(text):
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                raise ValueError(f"expected {text}, found no item {step} at {before}")
            value, before = value[step], f"{before}[{step}]"
        else:
            if not isinstance(value, dict) or step not in value:
                there = ", ".join(map(dumps, list(value)[:_MAX_KEYS])) if isinstance(value, dict) else ""
                raise ValueError(
                    f"expected {text}, found no {dumps(step)} at {before}; it has {there or 'no keys'}"
                )
            value, before = value[step], f"{before}.{step}"
    return value
