"""Vertex AI's evaluation service, which rates managed metrics by Google's rubrics."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from spangrade.evaluator.judge.protocol import JudgeError, Judgement, JudgeUnavailable

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from google.genai.types import HttpOptions

USE_VERTEX = "GOOGLE_GENAI_USE_VERTEXAI"  # google-genai's own
_TIMEOUT_MS = 120_000  # the service calls its judges several times for each rubric
_MAX_CONCURRENCY = 10


@functools.cache
def vertex_evaluation() -> VertexEvaluation | None:
    """Return the service if `$GOOGLE_GENAI_USE_VERTEXAI` is true and the extra `vertex` is installed."""
    is_requested = os.environ.get(USE_VERTEX, "").lower() in ("1", "true")
    return VertexEvaluation() if is_requested and find_spec("agentplatform") else None


class VertexEvaluation:
    """A client that asks for ten instances at once. Verdicts are not kept: each grading pays for them again.

    Without project, location or credentials, those of the environment are used.
    """

    def __init__(
        self,
        *,
        project: str | None = None,
        location: str | None = None,
        credentials: Credentials | None = None,
        http_options: HttpOptions | None = None,
    ) -> None:
        self._project = project
        self._location = location
        self._credentials = credentials
        self._http_options = http_options
        self._slots = asyncio.Semaphore(_MAX_CONCURRENCY)

    async def rate(
        self, metric: str, instance: Mapping[str, Any], guidelines: str | None = None
    ) -> Judgement:
        """Return the score, from 0 to 1, of an instance by a predefined metric such as `safety_v1`.

        Raises:
            JudgeUnavailable: there are no credentials or no project, or parts of the extra are missing.
            JudgeError: the service could not be reached, or did not answer with a score.
        """
        from google.auth.exceptions import GoogleAuthError
        from google.genai import errors

        parameters = {"guidelines": [guidelines]} if guidelines else None
        try:
            requested = import_module("agentplatform").types.Metric(
                name=metric, metric_spec_parameters=parameters
            )
            async with self._slots:
                answer = await self._client.aio.evals.evaluate_instances(
                    metric_config={"metrics": [requested], "instance": dict(instance)}
                )
        except (GoogleAuthError, ImportError) as error:
            raise JudgeUnavailable(f"vertex/{metric}: {error}") from error
        except errors.APIError as error:
            raise JudgeError(f"vertex/{metric}: {error.code} {error.status}: {error.message}") from error
        except (OSError, ValueError) as error:
            raise JudgeError(f"vertex/{metric}: {type(error).__name__}: {error!s:.200}") from error
        return _verdict(metric, answer)

    @functools.cached_property
    def _client(self) -> Any:
        from google.genai.types import HttpOptions, HttpRetryOptions

        options = self._http_options or HttpOptions(
            timeout=_TIMEOUT_MS, retry_options=HttpRetryOptions(attempts=5, max_delay=20)
        )
        try:
            return import_module("agentplatform").Client(
                project=self._project,
                location=self._location,
                credentials=self._credentials,
                http_options=options,
            )
        except ValueError as error:
            raise JudgeUnavailable(f"Vertex AI: {error}") from error


def _verdict(metric: str, answer: Any) -> Judgement:
    (result,) = answer.metric_results or (None,)
    if result is not None and result.error and result.error.code:
        raise JudgeError(f"vertex/{metric}: {result.error.message}")
    if result is None or result.score is None:
        raise JudgeError(f"vertex/{metric}: the answer has no score")
    rubrics = result.rubric_verdicts or []
    missed = [one.reasoning for one in rubrics if not one.verdict and one.reasoning]
    counts = [f"{sum(bool(one.verdict) for one in rubrics)} of {len(rubrics)} rubrics met"] if rubrics else []
    return Judgement(None, result.score, "; ".join([*filter(None, [result.explanation]), *counts, *missed]))
