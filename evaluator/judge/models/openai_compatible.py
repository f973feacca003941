"""The judge on any server with OpenAI's chat completions API, local ones included."""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

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
    UserQuestion,
    billed,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_TIMEOUT_S = 30.0


class OpenAICompatibleJudge:
    """Asks a model with structured output (`json_schema`), at temperature 0. Needs `spangrade[openai]`.

    Without `api_key` and `base_url`, `OPENAI_API_KEY` and `OPENAI_BASE_URL` are used; a server of your own
    needs no key. Timeouts, 429 and 5xx are retried four times with growing delays.
    """

    def __init__(self, model: str, *, base_url: str | None = None, api_key: str | None = None) -> None:
        self.model = model
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL")
        self.name = f"openai/{model}" + (f" at {self._base_url}" if self._base_url else "")
        self._api_key = api_key or os.environ.get("OPENAI_API_KEY")

    async def ask(self, question: Question) -> Judgement:
        """Return the verdict; see `Judge.ask`."""
        client = self._client
        from openai import APIStatusError, OpenAIError, omit

        system, message = render(question)
        with client_errors(self.name, self.model, APIStatusError, OpenAIError):
            completion = await client.chat.completions.create(
                model=self.model,
                messages=[{"role": "system", "content": system}, {"role": "user", "content": message}],
                temperature=0,
                seed=question.seed if isinstance(question, UserQuestion) else omit,
                # Other servers know other names of it, and some refuse a name that they do not know.
                max_completion_tokens=omit if self._base_url else MAX_TOKENS,
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "verdict", "strict": True, "schema": _strict_schema(question)},
                },
            )
        return self._verdict(question, completion)

    def largest_cost_usd(self, question: Question) -> float | None:
        """Return the cost of the largest answer; see `CostLimit`."""
        return largest_price_usd(self.model, question, api_url=str(self._client.base_url))

    async def check_model(self) -> None:
        """Raise UnknownJudgeModel if the server does not have the model; see `ModelCheck`."""
        try:
            client = self._client.with_options(timeout=CHECK_TIMEOUT_S, max_retries=0)
        except (JudgeUnavailable, JudgeError):
            return
        from openai import APIStatusError, OpenAIError

        path = f"/models/{self.model}"
        with (
            suppress(JudgeError),
            client_errors(self.name, self.model, APIStatusError, OpenAIError, path),
        ):
            await client.models.retrieve(self.model)

    @functools.cached_property
    def _client(self) -> AsyncOpenAI:
        if not self._api_key and not self._base_url:
            raise JudgeUnavailable(
                f"judge {self.name}: no key; set OPENAI_API_KEY, or OPENAI_BASE_URL to a server of your own"
            )
        with client_of("openai", self.name):
            from openai import AsyncOpenAI

        return AsyncOpenAI(
            base_url=self._base_url, api_key=self._api_key or "none", timeout=_TIMEOUT_S, max_retries=4
        )

    def _verdict(self, question: Question, completion: object) -> Judgement:
        try:
            answer = _Completion.model_validate(completion, from_attributes=True)
        except ValidationError as error:
            raise JudgeError(f"judge {self.name}: not a chat completion: {completion!r:.200}") from error
        paid = self._paid(answer.usage)
        with billed(paid):
            verdict = read_answer(question, answer.choices[0].message.content, self.name)
            return replace(verdict, **paid._asdict())

    def _paid(self, usage: _TokenUsage | None) -> Paid:
        if usage is None:
            return Paid()
        details = usage.prompt_tokens_details
        cost_usd = price_usd(
            self.model,
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            cached=(details and details.cached_tokens) or 0,
            api_url=str(self._client.base_url),
        )
        return Paid(usage.prompt_tokens, usage.completion_tokens, cost_usd)


def _strict_schema(question: Question) -> dict[str, Any]:
    """Return the schema as OpenAI's strict mode needs it: every property required, no others allowed."""
    schema = answer_type(question).model_json_schema()
    return schema | {"required": list(schema["properties"]), "additionalProperties": False}


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class _CachedTokens(BaseModel):
    cached_tokens: int | None = None


class _TokenUsage(BaseModel):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: _CachedTokens | None = None


class _Completion(BaseModel):
    """The fields of a chat completion that are read: the client does not validate responses."""

    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _TokenUsage | None = None
