"""Amazon Bedrock by OpenTelemetry's botocore instrumentation: the conventions, but for the cached tokens.

Bedrock's Converse API counts the tokens that it reads from its cache, and those that it writes to it, apart
from the input. The messages are events, in Bedrock's own form.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_TokenUsage.html
"""

from __future__ import annotations

from collections.abc import Sequence

from spangrade.converters.spans.advice import CLIENT
from spangrade.converters.spans.dialect import Dialect, Signs
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.reading import Reading
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE
from spangrade.tracer.span import LogRecord, Span


def read(span: Span, logs: Sequence[LogRecord]) -> Reading:
    """Read a span by the conventions, with the cached tokens added to the input."""
    observation = genai.read(span, logs)
    cached = (observation.cached_input_tokens or 0) + (observation.cache_write_tokens or 0)
    if observation.input_tokens is None or not cached:
        return observation
    return observation._replace(input_tokens=observation.input_tokens + cached)


DIALECT = Dialect(
    name="bedrock",
    signs=Signs(scopes=frozenset({"opentelemetry.instrumentation.botocore.bedrock-runtime"})),
    read=read,
    advice=CLIENT._replace(
        name="Bedrock by OpenTelemetry",
        content=f"set {CAPTURE_CONTENT_VARIABLE}=true, and import the logs too",
        tokens=None,
    ),
)
