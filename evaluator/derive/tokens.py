"""Token counts as the conventions count them, where what is recorded allows only one reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spangrade.converters.spans.observation import (
    ModelCall,
    Observation,
    RunSpan,
    TokenCounts,
    ToolUse,
    TurnSpan,
)
from spangrade.evaluator.derive.span_tree import Tree


def with_sound_tokens(observations: Iterable[Observation]) -> list[Observation]:
    """Return observations whose model calls count the cached tokens as input, and no output that was not.

    Cached tokens above the input mean that the input leaves them out (Bedrock, Anthropic), then in all calls
    of that model and instrumentation. A total that equals the input means an output of 0, unless the call
    has an answer: then the output is unknown.
    """
    observed = list(observations)
    apart = {
        (o.span.scope, o.provider, o.model)
        for o in observed
        if isinstance(o, ModelCall)
        and o.tokens.input_tokens is not None
        and _cached(o.tokens) > o.tokens.input_tokens
    }
    return [_sound(o, apart) if isinstance(o, ModelCall) else o for o in observed]


def _sound(call: ModelCall, apart: set[tuple[str | None, str | None, str | None]]) -> ModelCall:
    tokens = call.tokens
    if not tokens.output_tokens and tokens.input_tokens and tokens.total_tokens == tokens.input_tokens:
        answered = bool(call.exchange.tool_calls or (call.exchange.response or "").strip())
        tokens = tokens._replace(output_tokens=None if answered else 0)
    if tokens.input_tokens is not None and (call.span.scope, call.provider, call.model) in apart:
        tokens = tokens._replace(input_tokens=tokens.input_tokens + _cached(tokens))
    return call if tokens is call.tokens else call._replace(tokens=tokens)


def _cached(tokens: TokenCounts) -> int:
    return (tokens.cached_input_tokens or 0) + (tokens.cache_write_tokens or 0)


def agents_with_tokens(tree: Tree) -> Sequence[RunSpan | TurnSpan]:
    """Return the topmost runs that record tokens, where no model call records any.

    A run inside a tool's call is apart: what calls the tool does not count its tokens.
    """
    if any(call.tokens.input_tokens or call.tokens.output_tokens for call in tree.model_calls):
        return ()
    found: list[RunSpan | TurnSpan] = []
    counted: set[tuple[str, str]] = set()
    for o in tree.ordered:
        above = tree.nearest(o)
        inside = above is not None and not isinstance(above, ToolUse) and above.span.node in counted
        has_tokens = False
        if isinstance(o, RunSpan | TurnSpan) and (o.tokens.input_tokens or o.tokens.output_tokens):
            has_tokens = True
            if not inside:
                found.append(o)
        if has_tokens or inside:
            counted.add(o.span.node)
    return found
