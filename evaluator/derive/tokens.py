"""Token counts as the conventions count them, where what is recorded allows only one reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.span_tree import Tree

_AGENTS = frozenset({"agent", "workflow", "turn"})


def with_sound_tokens(observations: Iterable[Observation]) -> list[Observation]:
    """Return observations whose model calls count the cached tokens as input, and no output that was not.

    Cached tokens above the input mean that the input leaves them out (Bedrock, Anthropic), then in all calls
    of that model and instrumentation. A total that equals the input means an output of 0, unless the call
    has an answer: then the output is unknown.
    """
    observed = list(observations)
    apart = {
        (o.scope, o.provider, o.model)
        for o in observed
        if o.kind == "llm" and o.input_tokens is not None and _cached(o) > o.input_tokens
    }
    return [_sound(o, apart) if o.kind == "llm" else o for o in observed]


def _sound(call: Observation, apart: set[tuple[str | None, str | None, str | None]]) -> Observation:
    if not call.output_tokens and call.input_tokens and call.total_tokens == call.input_tokens:
        answered = bool(call.tool_calls or (call.response or "").strip())
        call = call._replace(output_tokens=None if answered else 0)
    if call.input_tokens is not None and (call.scope, call.provider, call.model) in apart:
        return call._replace(input_tokens=call.input_tokens + _cached(call))
    return call


def _cached(call: Observation) -> int:
    return (call.cached_input_tokens or 0) + (call.cache_write_tokens or 0)


def agents_with_tokens(tree: Tree) -> Sequence[Observation]:
    """Return the topmost runs that record tokens, where no model call records any.

    A run inside a tool's call is apart: what calls the tool does not count its tokens.
    """
    if any(o.kind == "llm" and (o.input_tokens or o.output_tokens) for o in tree.ordered):
        return ()
    found: list[Observation] = []
    counted: set[tuple[str, str]] = set()
    for o in tree.ordered:
        above = tree.nearest(o)
        inside = above is not None and above.kind != "tool" and (above.trace_id, above.span_id) in counted
        has_tokens = o.kind in _AGENTS and bool(o.input_tokens or o.output_tokens)
        if has_tokens and not inside:
            found.append(o)
        if has_tokens or inside:
            counted.add((o.trace_id, o.span_id))
    return found
