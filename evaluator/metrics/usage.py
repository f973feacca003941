"""Metrics of tokens and cost, reported for every session."""

from __future__ import annotations

import math
from operator import itemgetter

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics.causes import Cause
from spangrade.evaluator.metrics.metric import Inconclusive, Outcome, Score, limited, metric
from spangrade.evaluator.session import Session

_NO_CALLS = "no model call is recorded; instrument the model's client, or use llm_call"
_NO_TOKENS = "not every model call recorded its tokens; record the usage of each response"


@metric(unit="tokens", higher_is_better=False, grows=True)
def token_usage(session: Session) -> Outcome:
    """The sum of the input and output tokens of all model calls.

    Inconclusive without model calls, or if the tokens of one are not recorded.

    Source: `gen_ai.usage.*` of the OpenTelemetry GenAI conventions.
    """
    usage = session.usage
    if not usage.llm_calls:
        return Inconclusive(_NO_CALLS)
    if usage.input_tokens is None or usage.output_tokens is None or not usage.complete:
        known = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        return Inconclusive(_NO_TOKENS, float(known))
    total = usage.input_tokens + usage.output_tokens
    details = {
        "llm_calls": usage.llm_calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    return Score(float(total), None, f"{usage.input_tokens} in, {usage.output_tokens} out", (), details)


@metric(unit="USD", higher_is_better=False, grows=True)
def cost(session: Session) -> Outcome:
    """The cost of the model calls in US dollars, each at its model's price at that time.

    Inconclusive without model calls, or if the model, its price or the tokens of one are not known.

    Source: the prices of the library genai-prices.
    """
    if session.cost_usd is None:
        known = math.fsum(call.cost_usd for call in session.llm_calls if call.cost_usd is not None)
        return Inconclusive(_no_price(session), known)
    reason = f"{len(session.llm_calls)} model calls"
    if session.cost_estimated:
        reason += f"; estimated, without date or revision: the price of {session.cost_estimated}"
    return Score(session.cost_usd, None, reason)


@metric(needs="max_cost_usd", threshold=1.0, unit="ratio", higher_is_better=False, grows=True)
def max_cost_usd(session: Session, question: GoldenQuestion) -> Outcome:
    """The cost of the model calls as a ratio of `max_cost_usd`: at most 1 is within the limit.

    Inconclusive as `cost` is, unless what is known exceeds the limit already.

    Source: own definition.
    """
    return limited(cost(session), question.reference("max_cost_usd"), "USD", lambda: _dearest(session))


def _dearest(session: Session) -> tuple[Cause, ...]:
    """Return the model call that cost the most."""
    dearest = max(session.llm_calls, key=lambda call: call.cost_usd or 0.0, default=None)
    return () if dearest is None else (Cause(dearest.span_id, "cost_usd"),)


@metric()
def cache_efficiency(session: Session) -> Outcome:
    """The share of the input tokens that came from the cache: cached / input.

    Inconclusive if cached or input tokens are not recorded, or there are no input tokens.

    Source: own definition.
    """
    return _token_share(
        session.usage.cached_input_tokens, session.usage.input_tokens, "cached input tokens", "input tokens"
    )


@metric(higher_is_better=None)
def thinking_metrics(session: Session) -> Outcome:
    """The share of the output tokens that were spent on reasoning: reasoning / output.

    Inconclusive if reasoning or output tokens are not recorded, or there are no output tokens.

    Source: own definition.
    """
    return _token_share(
        session.usage.reasoning_tokens, session.usage.output_tokens, "reasoning tokens", "output tokens"
    )


@metric(unit="tokens", higher_is_better=None)
def output_density(session: Session) -> Outcome:
    """Output tokens (reasoning included) per model call.

    Inconclusive without model calls, or if the output tokens of one are not recorded.

    Source: own definition.
    """
    usage = session.usage
    if not usage.llm_calls or usage.output_tokens is None or not usage.complete:
        return Inconclusive(_NO_CALLS if not usage.llm_calls else _NO_TOKENS)
    value = usage.output_tokens / usage.llm_calls
    return Score(value, None, f"{usage.output_tokens} tokens in {usage.llm_calls} model calls")


@metric(higher_is_better=False, grows=True)
def context_saturation(session: Session) -> Outcome:
    """The largest share of a model's context window that a call used: input tokens / context window.

    Inconclusive without model calls, or if the context window or the input tokens of one are not known.

    Source: the context windows of the library genai-prices.
    """
    unknown = None
    shares = []
    for call in session.llm_calls:
        if call.unanswered:
            continue
        window = call.context_window
        if not window:
            what = f"the context window of {call.model or 'an unnamed model'} is not known"
            unknown = f"{what}; it takes a model that genai-prices has"
        elif call.input_tokens is None:
            unknown = _NO_TOKENS
        else:
            shares.append((call.input_tokens / window, window, call))
    fullest = max(shares, key=itemgetter(0), default=None)
    if fullest is None or unknown is not None:
        return Inconclusive(unknown or _NO_CALLS, fullest and fullest[0])
    share, window, call = fullest
    return Score(share, None, f"{call.input_tokens} of {window} tokens of {call.model}", (call.span_id,))


METRICS = (
    token_usage,
    cost,
    max_cost_usd,
    cache_efficiency,
    thinking_metrics,
    output_density,
    context_saturation,
)


def _token_share(part: int | None, whole: int | None, part_name: str, whole_name: str) -> Outcome:
    if part is None:
        return Inconclusive(f"{part_name} are not recorded; record the usage of each response")
    if whole is None:
        return Inconclusive(f"{whole_name} are not recorded; record the usage of each response")
    if not whole:
        return Inconclusive(f"there are no {whole_name}")
    return Score(part / whole, None, f"{part} of {whole} {whole_name}")


def _no_price(session: Session) -> str:
    what = (
        f"no price is known for {session.cost_unknown}" if session.cost_unknown else "the cost is not known"
    )
    return f"{what}; it takes the tokens, and a model that genai-prices has"
