"""Record the conversations of the golden questions: `python datasets/customer_service/record.py [FILE]`.

Ids and clock are scripted (the clock advances 20 ms per reading), so that a new recording is the same file.
"""

import base64
import hashlib
import itertools
import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from agent import CustomerService
from google.protobuf.json_format import MessageToDict
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

from spangrade.tracer import session

HERE = Path(__file__).resolve().parent
STARTED_NS, READING_NS = 1_767_258_000_000_000_000, 20_000_000  # 1 January 2026, 09:00 UTC


class ScriptedIds(IdGenerator):
    """Generate the same ids in every recording."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def generate_span_id(self) -> int:
        """Return the next 64 bits."""
        return int(hashlib.sha256(f"span {next(self._numbers)}".encode()).hexdigest()[:16], 16)

    def generate_trace_id(self) -> int:
        """Return the next 128 bits."""
        return int(hashlib.sha256(f"trace {next(self._numbers)}".encode()).hexdigest()[:32], 16)


def record(recording: Path) -> None:
    """Run the conversations and write their spans as OTLP/JSON, one line per conversation."""
    provider = TracerProvider(
        id_generator=ScriptedIds(), resource=Resource({"service.name": "customer_service"})
    )
    memory = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    trace.set_tracer_provider(provider)
    questions = json.loads((HERE / "customer_service_golden.json").read_text("utf-8"))["golden_questions"]
    clock = itertools.count(STARTED_NS, READING_NS)
    with (
        patch("opentelemetry.sdk.trace.time_ns", lambda: next(clock)),
        recording.open("w", encoding="utf-8") as out,
    ):
        for number, question in enumerate(questions, 1):
            service = CustomerService()
            with session(f"conversation-{number}", question_id=question["id"]):
                for text in question["user_inputs"]:
                    print(f"> {text}\n{service.answer(text)}")
            export = MessageToDict(encode_spans(memory.get_finished_spans()), use_integers_for_enums=True)
            out.write(json.dumps(otlp_json(export), ensure_ascii=False) + "\n")
            memory.clear()


def otlp_json(value: Any, key: str = "") -> Any:
    """Convert protobuf's JSON to OTLP's, whose ids are hexadecimal, without local paths in stack traces."""
    if isinstance(value, dict):
        return {name: otlp_json(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [otlp_json(item) for item in value]
    if key in {"traceId", "spanId", "parentSpanId"}:
        return base64.b64decode(value).hex()
    return value.replace(f"{HERE}/", "") if key == "stringValue" else value


if __name__ == "__main__":
    record(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "spans.otlp.jsonl")
