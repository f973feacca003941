"""Calls in the reasons of metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from spangrade.converters.datasets.forms import PATTERN, mentions
from spangrade.converters.datasets.golden import ReferenceToolInteraction
from spangrade.evaluator.metrics.masked import compared_arguments, has_mask
from spangrade.evaluator.metrics.pairing import Context, call_differences, result_matches
from spangrade.evaluator.metrics.references import lacks_result, result_tools
from spangrade.evaluator.metrics.shown import difference_text
from spangrade.evaluator.session import RequestedCall, ToolInteraction, error_type

_LONGEST_ARGUMENTS = 80  # characters of a call's arguments in a reason
_HOW = " (spangrade lint says how)"
MOST_CALLS = 5  # calls listed in a reason


def call_text(call: ToolInteraction) -> str:
    """Return a call that was made; if it failed, with the type of its error where its message has one."""
    return f"{call.tool_name}{arguments_text(call.input_arguments)}{failure_text(call)}"


def failure_text(call: ToolInteraction) -> str:
    """Return that a call failed, with the type of its error where its message has one; empty if not so."""
    if call.ok is not False:
        return ""
    kind = error_type(call.error)
    return f" (failed: {kind})" if kind else " (failed)"


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
    rest = len(names) - MOST_CALLS
    return ", ".join(names[:MOST_CALLS]) + (f" and {rest} more" if rest > 0 else "")


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
    context: Context,
) -> str:
    """Return the unknown parts of calls that might match, empty if there are none."""
    arguments = [call.tool_name for call in actual if not call.arguments_known]
    referred = {tool for wanted in expected for tool in result_tools(wanted.input_arguments)}
    results = [
        call.tool_name
        for call in actual
        if (call.tool_name in referred and lacks_result(call))
        or any(
            wanted.tool_name == call.tool_name
            and (wanted.output is None or not call.output_known or not call.ran)
            and result_matches(wanted, call) is None
            for wanted in expected
        )
    ]
    parts = [f"the arguments of {listed(arguments)} are not recorded{_HOW}"] if arguments else []
    if requested:
        parts.append(only_requested(requested))
    if results:
        parts.append(f"the result of {listed(results)} is not recorded{_HOW}")
    return "; ".join([*parts, *_undecided(expected, actual, context)])


def _undecided(
    expected: Sequence[ReferenceToolInteraction], actual: Sequence[ToolInteraction], context: Context
) -> Iterator[str]:
    """Yield the values of calls that may match: a pattern was not searched to the end, or they are masked."""
    masked = {id(call) for call in actual if has_mask((compared_arguments(call), call.output))}
    for wanted in expected:
        has_pattern = mentions(wanted.input_arguments, PATTERN) or mentions(wanted.output, PATTERN)
        for call in actual if has_pattern or masked else ():
            if call.tool_name == wanted.tool_name and (has_pattern or id(call) in masked):
                found = call_differences(wanted, call, context)
                yield from (difference_text(where, one) for where, one in found if one.undecided)
