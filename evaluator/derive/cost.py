"""The cost of model calls, by prices of one's own, else those of the `genai-prices` library; context windows.

The price is that of the exact model that answered, else of the requested one, else of either name without
its date or revision (`gemini-2.5-flash` for `gemini-2.5-flash-001`), which is an estimate.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal, DecimalException
from fnmatch import translate
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from spangrade.converters.spans.observation import ModelCall
from spangrade.evaluator.session import LLMCall
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.file_modes import cache_folder, file_mode, folder_mode

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

_DAY_NS = 86_400 * 10**9
# A date (2025-05-20, 20250520, 0613) or a revision (001, v1:0) at the end of a model's name.
_REVISION = re.compile(r"(?:[-@](?:\d{4}-\d\d-\d\d|\d\d-\d\d|\d{8}|\d{3,4}|v\d+(?::\d+)?))+$")
# Amazon's names of models (`us.anthropic.claude-…`), which other libraries record without a provider.
_BEDROCK = re.compile(r"(?:(?:us|eu|apac|global)\.)?(?:anthropic|amazon|meta|mistral|cohere|deepseek)\.")

# Recorded as the provider by frameworks that do not know it.
FRAMEWORKS = frozenset(
    {"strands-agents", "gcp.vertex.agent", "langchain", "langgraph", "litellm", "llama_index", "_other"}
)
_MAX_BYTES = 1 << 20  # some 10,000 answers; what comes after them is asked of the library each time

T = TypeVar("T")

Answer = str | int | list[str | bool | list[str]] | None  # as JSON has it: what `cost` asks and reads


class _Rates(NamedTuple):
    """US dollars per token, of a model whose price does not depend on their number."""

    input: Decimal
    cached: Decimal
    written: Decimal
    output: Decimal


_ByCall = Literal["by call"]


class Price(NamedTuple):
    """A call's cost in US dollars.

    `estimated` if its model is priced without its date or revision, `own` if by a price of the project's own.
    """

    cost_usd: float
    estimated: bool
    own: bool = False


def price(call: ModelCall, prices: Iterable[OwnPrice] = ()) -> Price | None:
    """Return a call's price at the time of the call; None if its model or usage is unknown.

    The project's own `prices` come before those of the library.
    """
    given, answered = call.tokens.input_tokens, call.tokens.output_tokens
    if given is None or answered is None:
        return None
    cached, written = call.tokens.cached_input_tokens or 0, call.tokens.cache_write_tokens or 0
    fresh = given - cached - written
    if fresh < 0:
        return None  # counts that contradict each other
    if (own := own_cost(call, fresh, prices)) is not None:
        return Price(own, estimated=False, own=True)
    priced = _priced_model(call.model, call.requested_model, call.provider, call.span.start_ns // _DAY_NS)
    if priced is None:
        return None
    model, rates, estimated = priced
    if isinstance(rates, _Rates):
        cost = fresh * rates.input + answered * rates.output
        if cached or written:
            cost += cached * rates.cached + written * rates.written
        return Price(float(cost), estimated)
    at = datetime.fromtimestamp(call.span.start_ns // 10**9, UTC)
    found = _find(model, call.provider, at, given, answered, cached, written)
    return None if found is None else Price(float(found.total_price), estimated)


def total_cost(llm_calls: Iterable[LLMCall]) -> tuple[float | None, str | None]:
    """Return the cost of a session's calls in US dollars, and the models that have no known price.

    Both are None without a call; one unknown price makes the total unknown. A call that failed before any
    output costs nothing.
    """
    costs = []
    unpriced = set()
    for call in llm_calls:
        if call.cost_usd is None:
            if call.unanswered:
                continue
            unpriced.add(call.model or "a model without a name")
        else:
            costs.append(call.cost_usd)
    if unpriced or not costs:
        return None, ", ".join(sorted(unpriced)) or None
    return math.fsum(costs), None  # the same in any order and on every version of Python


def models_of(llm_calls: Iterable[LLMCall]) -> str | None:
    """Return the names of the models of calls, None without any."""
    return ", ".join(sorted({call.model or "" for call in llm_calls})) or None


@lru_cache(maxsize=4096)
def _priced_model(
    model: str | None, requested: str | None, provider: str | None, day: int
) -> tuple[str, _Rates | _ByCall, bool] | None:
    """Return the name that has a price, its rates (see `_rates`), and whether they are an estimate."""
    return kept_answers().get(
        ["price", model, requested, provider, day],
        lambda: _ask_for_price(model, requested, provider, day),
        _read_price,
    )


def _read_price(answer: object) -> tuple[str, _Rates | _ByCall, bool] | None:
    match answer:
        case None:
            return None
        case [str(name), "by call", bool(estimated)]:
            return name, "by call", estimated
        case [str(name), [str(), str(), str(), str()] as rates, bool(estimated)]:
            with suppress(DecimalException):
                return name, _Rates(*map(Decimal, rates)), estimated
    raise ValueError(answer)


def _ask_for_price(
    model: str | None, requested: str | None, provider: str | None, day: int
) -> list[str | bool | list[str]] | None:
    """Return what `_priced_model` does, as JSON."""
    exact = list(dict.fromkeys(name for name in (model, requested) if name))
    names = [(name, False) for name in exact]
    names += [(_REVISION.sub("", name), True) for name in exact if _REVISION.search(name)]
    for name, estimated in names:
        rates = _rates(name, provider, day)
        if rates is not None:
            return [name, rates if rates == "by call" else [str(rate) for rate in rates], estimated]
    return None


def _rates(model: str, provider: str | None, day: int) -> _Rates | _ByCall | None:
    """Return a model's rates on a day; None if it has no price.

    With tiers, or prices by the time of day, each call is priced by itself.

    The library takes 95 µs per call, as much as all the rest of deriving one. A price without tiers is linear
    in each kind of token, so its answers for one token of each kind hold for any number.
    """
    from genai_prices.types import ConditionalPrice, TieredPrices, TimeOfDateConstraint

    at = datetime.fromtimestamp(day * 86_400, UTC)
    found = _find(model, provider, at, 1, 0, 0, 0)
    if found is None:
        return None
    if any(isinstance(value, TieredPrices) for value in vars(found.model_price).values()):
        return "by call"
    listed: list[ConditionalPrice] = found.model.prices if isinstance(found.model.prices, list) else []
    if any(isinstance(one.constraint, TimeOfDateConstraint) for one in listed):
        return "by call"
    # (input, output, of the input: read from the cache, written to the cache)
    kinds = ((1, 0, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1), (0, 1, 0, 0))
    prices = [answer.total_price for kind in kinds if (answer := _find(model, provider, at, *kind))]
    return _Rates(*prices) if len(prices) == len(kinds) else "by call"


def _find(
    model: str, provider: str | None, at: datetime, tokens_in: int, tokens_out: int, cached: int, written: int
) -> PriceCalculation | None:
    import genai_prices

    usage = genai_prices.Usage(
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cache_read_tokens=cached or None,
        cache_write_tokens=written or None,
    )
    for provider_id in providers_of(model, provider):
        try:
            return genai_prices.calc_price(usage, model, provider_id=provider_id, genai_request_timestamp=at)
        except (LookupError, ValueError):  # no such model, or counts that contradict each other
            continue
    return None


def providers_of(model: str, provider: str | None) -> Iterator[str | None]:
    """Yield the providers to look for a model with: the recorded one, then those that its name gives.

    A router's name begins with the provider (`bedrock/us.anthropic.claude-…`), in the form that LiteLLM uses.
    """
    yield provider
    if "/" in model:
        yield "litellm"
    if _BEDROCK.match(model):
        yield "aws"
    if provider in FRAMEWORKS:
        yield None


class OwnPrice(NamedTuple):
    """The price of the models of a name or pattern (`acme-*`), in USD per million tokens.

    `cached` and `written` are those of input tokens that are read from and written to a cache.
    """

    model: str
    input: float
    output: float
    cached: float
    written: float


def own_cost(call: ModelCall, fresh: int, prices: Iterable[OwnPrice]) -> float | None:
    """Return a call's cost in USD by the first price of its model; None if there is none.

    `fresh` are its input tokens that are neither read from nor written to a cache.
    """
    for own in prices:
        if any(name and _matches(own.model, name) for name in (call.model, call.requested_model)):
            usd = (
                fresh * own.input
                + (call.tokens.cached_input_tokens or 0) * own.cached
                + (call.tokens.cache_write_tokens or 0) * own.written
                + (call.tokens.output_tokens or 0) * own.output
            )
            return usd / 1_000_000
    return None


@lru_cache(maxsize=4096)
def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(translate(pattern.lower()), name.lower()) is not None


@lru_cache(maxsize=1024)
def context_window(model: str | None, provider: str | None) -> int | None:
    """Return the context window of a model in tokens; None if the library has none for its exact name."""
    if model is None:
        return None
    return kept_answers().get(
        ["window", model, provider], lambda: _ask_for_window(model, provider), _read_window
    )


def _read_window(answer: object) -> int | None:
    if answer is None or isinstance(answer, int):
        return answer
    raise ValueError(answer)


def _ask_for_window(model: str, provider: str | None) -> int | None:
    from genai_prices.data_snapshot import get_snapshot

    for provider_id in providers_of(model, provider):
        try:
            found = get_snapshot().find_provider_model(model, None, provider_id, None)[1]
        except LookupError:
            continue
        if found.context_window is not None:
            return found.context_window
    return None


class KeptAnswers:
    """What genai-prices answered, in one file: read when the first is needed, each new one appended.

    To import the library takes a sixth of a small command. What it answered once holds for this release of
    it, so the answer is kept: a line of JSON each, in a file of the release in the user's cache folder.
    Without a file, none is.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._answers = _read_answers(file)

    def get(self, question: list[str | int | None], ask: Callable[[], Answer], read: Callable[[Any], T]) -> T:
        """Return the kept answer to a question, as `read` reads it; without one, ask, and keep the answer.

        `read` raises ValueError for a value that is not an answer.
        """
        if _has_other_prices():
            return read(ask())
        key = json.dumps(question)
        if key in self._answers:
            with suppress(ValueError):
                return read(self._answers[key])
        self._answers[key] = answer = ask()
        self._append(json.dumps([question, answer]).encode() + b"\n")
        return read(answer)

    def _append(self, line: bytes) -> None:
        if self._file is None:
            return
        with suppress(OSError):  # the cache is a convenience
            self._file.parent.mkdir(mode=folder_mode(), parents=True, exist_ok=True)
            descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, file_mode())
            try:
                if os.fstat(descriptor).st_size + len(line) <= _MAX_BYTES:
                    os.write(descriptor, line)  # in one piece: processes do not mix their lines
            finally:
                os.close(descriptor)


def _read_answers(file: Path | None) -> dict[str, Any]:
    answers = {}
    with suppress(OSError):
        for line in file.read_bytes()[:_MAX_BYTES].splitlines() if file else ():
            with suppress(ValueError, TypeError):  # a line that was cut
                question, answer = json.loads(line)
                answers[json.dumps(question)] = answer
    return answers


def _has_other_prices() -> bool:
    """Return whether this process has given the library prices other than those of its release."""
    module = sys.modules.get("genai_prices.data_snapshot")
    return module is not None and getattr(module, "_custom_snapshot", module) is not None


@cache
def kept_answers() -> KeptAnswers:
    """Return what the installed release of genai-prices has answered to this user."""
    try:
        return KeptAnswers(cache_folder() / f"prices-{version('genai-prices')}.jsonl")
    except InputError:  # there is no folder
        return KeptAnswers(None)
