"""The judge on Anthropic's Messages API, through anthropic."""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from spangrade.evaluator.judge.models.client import (
    CHECK_TIMEOUT_S,
    MAX_TOKENS,
    client_errors,
    client_of,
    largest_price_usd,
    price_usd,
)
from spangrade.evaluator.judge.prompts import answer_type, read_answer, render
from spangrade.evaluator.judge.protocol import (
    JudgeError,
    Judgement,
    JudgeUnavailable,
    Paid,
    Question,
    billed,
)
from spangrade.tracer.base.installation import is_installed

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_TIMEOUT_S = 30.0


class AnthropicJudge:
    """Asks a Claude model with structured output (`json_schema`). Needs `spangrade[anthropic]`.

    Without `api_key` and `base_url`, the client takes them from its own variables: `ANTHROPIC_API_KEY` and
    `ANTHROPIC_BASE_URL`. Timeouts, 429 and 5xx are retried four times with growing delays. The API takes no
    temperature.
    """

    def __init__(self, model: str, *, base_url: str | None = None, api_key: str | None = None) -> None:
        self.model = model
        self.name = f"anthropic/{model}"
        self._base_url = base_url
        self._api_key = api_key

    async def ask(self, question: Question) -> Judgement:
        """Return the verdict; see `Judge.ask`."""
        client = self._client
        from anthropic import AnthropicError, APIStatusError

        system, message = render(question)
        with client_errors(self.name, self.model, APIStatusError, AnthropicError):
            response = await client.messages.create(
                model=self.model,
                max_tokens=MAX_TOKENS,
                system=system,
                messages=[{"role": "user", "content": message}],
                output_config={"format": {"type": "json_schema", "schema": _schema(question)}},
            )
        return self._verdict(question, response)

    def largest_cost_usd(self, question: Question) -> float | None:
        """Return the cost of the largest answer; see `CostLimit`."""
        return largest_price_usd(self.model, question, provider_id="anthropic")

    async def check_model(self) -> None:
        """Raise UnknownJudgeModel if Anthropic does not have the model; see `ModelCheck`."""
        try:
            client = self._client.with_options(timeout=CHECK_TIMEOUT_S, max_retries=0)
        except (JudgeUnavailable, JudgeError):
            return
        from anthropic import AnthropicError, APIStatusError

        with suppress(JudgeError), client_errors(self.name, self.model, APIStatusError, AnthropicError):
            await client.models.retrieve(self.model)

    @functools.cached_property
    def _client(self) -> AsyncAnthropic:
        if not (is_installed("anthropic") or self._api_key or any(map(os.environ.get, _KEYS))):
            raise JudgeUnavailable(f"judge {self.name}: no key; set ANTHROPIC_API_KEY")
        with client_of("anthropic", self.name):
            from anthropic import AnthropicError, AsyncAnthropic
        try:
            client = AsyncAnthropic(
                base_url=self._base_url, api_key=self._api_key, timeout=_TIMEOUT_S, max_retries=4
            )
        except (AnthropicError, ValueError) as error:
            raise JudgeUnavailable(f"judge {self.name}: no key; set ANTHROPIC_API_KEY: {error}") from error
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            raise JudgeUnavailable(f"judge {self.name}: no key; set ANTHROPIC_API_KEY")
        return client

    def _verdict(self, question: Question, response: object) -> Judgement:
        try:
            answer = _Message.model_validate(response, from_attributes=True)
        except ValidationError as error:
            raise JudgeError(f"judge {self.name}: not a message: {response!r:.200}") from error
        paid = self._paid(answer.usage)
        text = "".join(block.text or "" for block in answer.content if block.type == "text")
        with billed(paid):
            if not text or answer.stop_reason in ("refusal", "max_tokens"):
                raise JudgeError(f"judge {self.name}: no whole answer: {answer.stop_reason or 'no text'}")
            return replace(read_answer(question, text, self.name), **paid._asdict())

    def _paid(self, usage: _TokenUsage | None) -> Paid:
        if usage is None:
            return Paid()
        cached, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
        input_tokens = usage.input_tokens + cached + written
        cost_usd = price_usd(
            self.model,
            input_tokens=input_tokens,
            output_tokens=usage.output_tokens,
            cached=cached,
            written=written,
            provider_id="anthropic",
        )
        return Paid(input_tokens, usage.output_tokens, cost_usd)


def _schema(question: Question) -> dict[str, Any]:
    """Return the schema as the API takes it: without bounds, every property required."""
    from anthropic import transform_schema

    schema = transform_schema(answer_type(question))
    return schema | {"required": list(schema["properties"])}


class _Block(BaseModel):
    type: str
    text: str | None = None


class _TokenUsage(BaseModel):
    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Message(BaseModel):
    """The fields of a message that are read: the client does not validate responses."""

    type: Literal["message"]
    content: Annotated[list[_Block], Field(min_length=1)]
    stop_reason: str | None = None
    usage: _TokenUsage | None = None
