"""The judge on Gemini, through google-genai."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from spangrade.converters.spans.provider_values import gemini_usage
from spangrade.evaluator.judge.models.client import (
    CHECK_TIMEOUT_S,
    MAX_TOKENS,
    client_of,
    largest_price_usd,
    price_usd,
    status_error,
)
from spangrade.evaluator.judge.prompts import answer_type, read_answer, render
from spangrade.evaluator.judge.protocol import (
    JudgeError,
    Judgement,
    JudgeUnavailable,
    Paid,
    Question,
    UnknownJudgeModel,
    UserQuestion,
    billed,
)
from spangrade.tracer.base.installation import is_installed

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.types import GenerateContentResponse, HttpOptions

_CLIENT = "google.genai"
DEFAULT_MODEL = "gemini-3.8-flash"
_TIMEOUT_MS = 30_000
_KEYS = ("GEMINI_", "GOOGLE_")  # how the names of all variables begin that the client takes a key from
_PLAIN_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI")  # where no client can tell
_NO_KEY = "no key; set GEMINI_API_KEY (or GOOGLE_API_KEY, or Vertex AI's variables)"


class GeminiJudge:
    """Asks a Gemini model, at temperature 0 and with structured output.

    The key is `GEMINI_API_KEY` or `GOOGLE_API_KEY`; with `GOOGLE_GENAI_USE_VERTEXAI` and its companions the
    client uses Vertex AI. `http_options` are the client's own: base URL, timeout, retries. Without them a
    request has 30 s, and timeouts, 429 and 5xx are retried four times with growing delays.
    """

    def __init__(self, model: str = DEFAULT_MODEL, *, http_options: HttpOptions | None = None) -> None:
        self.model = model
        self.name = f"gemini/{model}"
        self._http_options = http_options

    async def ask(self, question: Question) -> Judgement:
        """Return the verdict; see `Judge.ask`."""
        self.require_key()
        with client_of("gemini", self.name):
            from google.auth.exceptions import GoogleAuthError
            from google.genai import errors, types

        system, message = render(question)
        try:
            response = await self._client.aio.models.generate_content(
                model=self.model,
                contents=message,
                config=types.GenerateContentConfig(
                    system_instruction=system,
                    temperature=0,
                    seed=question.seed if isinstance(question, UserQuestion) else None,
                    max_output_tokens=MAX_TOKENS,
                    response_mime_type="application/json",
                    response_schema=answer_type(question),
                ),
            )
        except GoogleAuthError as error:
            raise JudgeUnavailable(f"judge {self.name}: no credentials: {error}") from error
        except errors.APIError as error:
            message = f"{error.code} {error.status}: {error.message}"
            raise status_error(self.name, self.model, error.code, message) from error
        except _transport_errors() as error:
            message = " ".join(str(error).split())
            raise JudgeError(f"judge {self.name}: {type(error).__name__}: {message:.200}") from error
        return self._verdict(question, response)

    async def check_model(self) -> None:
        """Raise UnknownJudgeModel if Gemini does not have the model; see `ModelCheck`."""
        if not is_installed(_CLIENT):
            return
        from google.auth.exceptions import GoogleAuthError
        from google.genai import errors, types

        once = types.HttpOptions(
            timeout=CHECK_TIMEOUT_S * 1000, retry_options=types.HttpRetryOptions(attempts=1)
        )
        try:
            await self._client.aio.models.get(
                model=self.model, config=types.GetModelConfig(http_options=once)
            )
        except errors.APIError as error:
            message = f"{error.code}: {error.message}"
            meaning = status_error(self.name, self.model, error.code, message)
            if isinstance(meaning, UnknownJudgeModel):
                raise meaning from error
        except (JudgeUnavailable, GoogleAuthError):
            pass
        except _transport_errors():
            pass

    def largest_cost_usd(self, question: Question) -> float | None:
        """Return the cost of the largest answer; see `CostLimit`."""
        return largest_price_usd(self.model, question, provider_id="google")

    def require_key(self) -> None:
        """Raise JudgeUnavailable if nothing can be a key: to import the client for that takes 1 s."""
        begin = _KEYS if is_installed(_CLIENT) else _PLAIN_KEYS
        if self._http_options is None and not any(name.startswith(begin) for name in os.environ):
            raise JudgeUnavailable(f"judge {self.name}: {_NO_KEY}")

    @functools.cached_property
    def _client(self) -> Client:
        from google.genai import Client, types

        options = self._http_options or types.HttpOptions()
        defaults = {"timeout": _TIMEOUT_MS, "retry_options": types.HttpRetryOptions(attempts=5, max_delay=20)}
        unset = {name: value for name, value in defaults.items() if getattr(options, name) is None}
        try:
            return Client(http_options=options.model_copy(update=unset))
        except ValueError as error:
            raise JudgeUnavailable(f"judge {self.name}: {_NO_KEY}: {error}") from error

    def _verdict(self, question: Question, response: GenerateContentResponse) -> Judgement:
        paid = self._paid(response)
        with billed(paid):
            if not response.text:
                blocked = response.prompt_feedback and response.prompt_feedback.block_reason
                finished = response.candidates and response.candidates[0].finish_reason
                raise JudgeError(
                    f"judge {self.name}: the answer has no text: {blocked or finished or 'no candidate'}"
                )
            return replace(read_answer(question, response.text, self.name), **paid._asdict())

    def _paid(self, response: GenerateContentResponse) -> Paid:
        if response.usage_metadata is None:
            return Paid()
        usage = gemini_usage(response.usage_metadata.model_dump())
        if usage.input_tokens is None or usage.output_tokens is None:
            return Paid()
        cost_usd = price_usd(
            self.model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached=usage.cached_input_tokens or 0,
            provider_id="google",
        )
        return Paid(usage.input_tokens, usage.output_tokens, cost_usd)


def _transport_errors() -> tuple[type[Exception], ...]:
    """Return the errors of the client's transport, which depends on the installed libraries.

    The client raises ValueError for a response that is not the API's.
    """
    names = [("httpx", "HTTPError"), ("httpx2", "HTTPError"), ("aiohttp", "ClientError")]
    libraries = (getattr(sys.modules[module], name) for module, name in names if module in sys.modules)
    return (OSError, ValueError, *libraries)
