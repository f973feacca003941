"""Token counts as the conventions count them, where the spans allow only one reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spangrade.converters.spans.observation import (
    ModelCall,
    Observation,
    RunSpan,
    TokenCounts,
    ToolUse,
    Traits,
    TurnSpan,
)
from spangrade.evaluator.derive.span_tree import Node, Tree

_DOUBTFUL: Traits = frozenset({"doubtful_tokens"})


def with_sound_tokens(observations: Iterable[Observation]) -> list[Observation]:
    """Return observations whose model calls count the cached tokens as input, and no output that was not.

    Cached tokens above the input, and a total of both and the output, mean that the input leaves them out
    (Bedrock, Anthropic), then in all calls of that model and instrumentation. An input of which nothing tells
    whether it includes the cached tokens is unknown (`_is_doubtful`). A total that equals the input means an
    output of 0, unless the call has an answer: then the output is unknown.
    """
    observed = list(observations)
    apart = {
        (o.span.scope, o.provider, o.model)
        for o in observed
        if isinstance(o, ModelCall)
        and o.tokens.input_tokens is not None
        and (_cached(o.tokens) > o.tokens.input_tokens or _is_beside(o.tokens))
    }
    return [_sound(o, apart) if isinstance(o, ModelCall) else o for o in observed]


def _sound(call: ModelCall, apart: set[tuple[str | None, str | None, str | None]]) -> ModelCall:
    tokens = call.tokens
    if not tokens.output_tokens and tokens.input_tokens and tokens.total_tokens == tokens.input_tokens:
        answered = bool(call.exchange.tool_calls or (call.exchange.response or "").strip())
        tokens = tokens._replace(output_tokens=None if answered else 0)
    if tokens.input_tokens is not None and (call.span.scope, call.provider, call.model) in apart:
        tokens = tokens._replace(input_tokens=tokens.input_tokens + _cached(tokens))
    elif _is_doubtful(call):
        call = call._replace(traits=call.traits | _DOUBTFUL)
        tokens = tokens._replace(input_tokens=None)
    return call if tokens is call.tokens else call._replace(tokens=tokens)


def _is_beside(tokens: TokenCounts) -> bool:
    """Return whether a total shows that the cached tokens are counted beside the input."""
    cached = _cached(tokens)
    return cached > 0 and tokens.total_tokens == (tokens.input_tokens or 0) + cached + (
        tokens.output_tokens or 0
    )


def _is_doubtful(call: ModelCall) -> bool:
    """Return whether the input may leave out what was cached, or was not counted at all.

    The latter is an input of 0 with 0 cached tokens beside a text, if nothing names who wrote it.
    """
    tokens, said = call.tokens, call.exchange
    if tokens.input_tokens == tokens.cached_input_tokens == 0:
        return not (call.span.scope or call.provider) and bool(said.user_input or said.response)
    return tokens.input_tokens is not None and "cached_unplaced" in call.traits and _cached(tokens) > 0


def beyond_calls(tree: Tree) -> tuple[int, int]:
    """Return the input and output tokens of runs that are above the sum of the model calls in them.

    Every run counts of a writer whose runs have the tokens of their own alone. Of any other, only an agent's
    first run in the session does, and only one that is not below another agent's and follows no model call
    with tokens: any other total may be that of the agent's life, or shared with its caller, or with the agent
    that handed over.
    """
    inputs, outputs = 0, 0
    if all(None in run.tokens[:2] for run in tree.agents):
        return inputs, outputs
    inside: dict[Node, tuple[int, int]] = {}
    for call in tree.model_calls:
        above = tree.nearest(call)
        is_own = True
        while above is not None:
            if is_own or "own_run" not in above.traits:
                known = inside.get(above.span.node, (0, 0))
                tokens = (call.tokens.input_tokens or 0, call.tokens.output_tokens or 0)
                inside[above.span.node] = known[0] + tokens[0], known[1] + tokens[1]
            is_own = is_own and "own_run" not in above.traits
            above = tree.nearest(above)
    first_call_ns = min((call.span.start_ns for call in tree.model_calls if any(call.tokens[:2])), default=0)
    started: set[str | None] = set()
    for run in tree.agents:
        is_first = run.name not in started
        started.add(run.name)
        counted = inside.get(run.span.node, (0, 0))
        is_alone = is_first and run.span.start_ns <= first_call_ns and any(counted)
        if "own_run" not in run.traits and (not is_alone or tree.agent_above(run) is not None):
            continue
        if "only_alone" in run.traits:
            continue
        more = [(a or 0) - b for a, b in zip(run.tokens[:2], counted, strict=True)]
        if None not in run.tokens[:2] and min(more) >= 0:
            inputs, outputs = inputs + more[0], outputs + more[1]
    return inputs, outputs


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
            if not inside or "own_run" in o.traits:
                found.append(o)
        if has_tokens or inside:
            counted.add(o.span.node)
    return found
