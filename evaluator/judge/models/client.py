"""What the clients of the models' providers share: a missing package, an HTTP error, the price of a call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from spangrade.evaluator.judge.prompts import answer_type, render
from spangrade.evaluator.judge.protocol import JudgeError, Question, UnknownJudgeModel
from spangrade.tracer.base.installation import to_install

CHECK_TIMEOUT_S = 5  # for the check of a model, without retries
MAX_TOKENS = 8192  # of an answer: a reason of two sentences, and room for a model that thinks before it


@contextmanager
def client_of(extra: str, judge: str) -> Iterator[None]:
    """Import the client that an extra brings; raise JudgeError with how to install it if it is missing.

    There is a key, so that somebody wants to be judged: unlike a missing key, this is no reason to skip.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise JudgeError(f"judge {judge} needs {error.name}: {to_install(extra)}") from error


def status_error(
    judge: str, model: str, status: int | None, message: str, path: str = "\n"
) -> UnknownJudgeModel | JudgeError:
    """Return the error that an HTTP status and its message, which has the status in it, stand for.

    A 404 means an unknown model only if it names the model: a wrong address gives one too. `path` is the path
    that was requested, if it has the model's name: a server that does not know the path may repeat it.
    """
    text = f"judge {judge}: {message}"
    named = message.replace(path, "")
    is_unknown = status == 404 and (model in named or "model_not_found" in named)
    return UnknownJudgeModel(text) if is_unknown else JudgeError(text)


@contextmanager
def client_errors(
    judge: str, model: str, of_status: type[Exception], of_client: type[Exception], path: str = "\n"
) -> Iterator[None]:
    """Raise UnknownJudgeModel or JudgeError for an error of the clients of OpenAI and Anthropic.

    An error `of_status` has a `status_code` and a `message`; `of_client` is the base of all of them. A
    ValueError stands for a body that is not the API's. For `path` see `status_error`.
    """
    try:
        yield
    except (of_client, ValueError) as error:
        if not isinstance(error, of_status):
            raise JudgeError(f"judge {judge}: {type(error).__name__}: {error}") from error
        status, message = getattr(error, "status_code", None), getattr(error, "message", "")
        raise status_error(judge, model, status, f"{status}: {message}", path) from error


def price_usd(
    model: str,
    *,
    input_tokens: int,
    output_tokens: int,
    cached: int = 0,
    written: int = 0,
    provider_id: str | None = None,
    api_url: str | None = None,
) -> float | None:
    """Return the price of one call in USD, by genai-prices; None if it has no price for the model.

    The tokens that were read from a cache (`cached`) or `written` to it are among the `input_tokens`.
    """
    from genai_prices import Usage, calc_price  # here, because it takes a sixth of a command's start

    usage = Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=cached,
        cache_write_tokens=written,
    )
    try:
        if api_url is not None:
            return float(calc_price(usage, model, provider_api_url=api_url).total_price)
        return float(calc_price(usage, model, provider_id=provider_id).total_price)
    except LookupError:
        return None


def largest_price_usd(
    model: str, question: Question, *, provider_id: str | None = None, api_url: str | None = None
) -> float | None:
    """Return the price of a call with the largest answer; None if genai-prices has none for the model.

    A token is one byte of UTF-8 or more.
    """
    sent = (*render(question), json.dumps(answer_type(question).model_json_schema()))
    return price_usd(
        model,
        input_tokens=sum(len(text.encode()) for text in sent),
        output_tokens=MAX_TOKENS,
        provider_id=provider_id,
        api_url=api_url,
    )
