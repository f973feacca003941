"""Amazon Bedrock by OpenTelemetry's botocore instrumentation: the conventions.

Its cached tokens are beside the input (see `token_counts`). The messages are events, in Bedrock's own form.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_TokenUsage.html
"""

from __future__ import annotations

from spangrade.converters.spans.dialect import CLIENT, Dialect, Signs
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE

DIALECT = Dialect(
    name="bedrock",
    signs=Signs(scopes=frozenset({"opentelemetry.instrumentation.botocore.bedrock-runtime"})),
    advice=CLIENT._replace(
        name="Bedrock by OpenTelemetry",
        content=f"set {CAPTURE_CONTENT_VARIABLE}=true, and import the logs too",
        tokens=None,
    ),
)
