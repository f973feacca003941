"""Calls in the reasons of metrics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from spangrade.converters.datasets.golden import ReferenceToolInteraction
from spangrade.evaluator.metrics.pairing import result_matches
from spangrade.evaluator.metrics.references import lacks_result, result_tools
from spangrade.evaluator.session import RequestedCall, ToolInteraction, error_type

_LONGEST_ARGUMENTS = 80  # characters of a call's arguments in a reason
_HOW = " (spangrade lint says how)"
_MOST_CALLS = 5  # calls listed in a reason


def call_text(call: ToolInteraction) -> str:
    """Return a call that was made; if it failed, with the type of its error where its message has one."""
    failed = ""
    if call.ok is False:
        kind = error_type(call.error)
        failed = f" (failed: {kind})" if kind else " (failed)"
    return f"{call.tool_name}{arguments_text(call.input_arguments)}{failed}"


def arguments_text(arguments: Any) -> str:
    """Return arguments as JSON of at most 80 characters, empty for None."""
    if arguments is None:
        return ""
    try:
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), default=repr)
    except RecursionError:
        text = "{…}"
    return text if len(text) <= _LONGEST_ARGUMENTS else text[:_LONGEST_ARGUMENTS] + "…"


def listed(names: Sequence[str]) -> str:
    """Return the first five of some names, and the number of the others."""
    rest = len(names) - _MOST_CALLS
    return ", ".join(names[:_MOST_CALLS]) + (f" and {rest} more" if rest > 0 else "")


def only_requested(calls: Sequence[RequestedCall | ToolInteraction]) -> str:
    """Return that it is not recorded whether requested calls were executed; empty without calls."""
    if not calls:
        return ""
    names = listed([call.tool_name for call in calls])
    return f"whether {names} was executed is not recorded, only that it was requested"


def not_recorded(
    expected: Sequence[ReferenceToolInteraction],
    actual: Sequence[ToolInteraction],
    requested: Sequence[ToolInteraction],
) -> str:
    """Return what is not recorded of calls that might match, empty if all is."""
    arguments = [call.tool_name for call in actual if not call.arguments_known]
    referred = {tool for wanted in expected for tool in result_tools(wanted.input_arguments)}
    results = [
        call.tool_name
        for call in actual
        if (call.tool_name in referred and lacks_result(call))
        or any(
            wanted.tool_name == call.tool_name and result_matches(wanted, call) is None for wanted in expected
        )
    ]
    parts = [f"the arguments of {listed(arguments)} are not recorded{_HOW}"] if arguments else []
    if requested:
        parts.append(only_requested(requested))
    if results:
        parts.append(f"the result of {listed(results)} is not recorded{_HOW}")
    return "; ".join(parts)
