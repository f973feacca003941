"""datasets/customer_service: a new recording equals the committed one."""

import json
import subprocess
import sys

from paths import SAMPLE


def spans_of(recording):
    """Return the spans without stack traces, whose text differs between Python versions."""
    spans = []
    for line in recording.read_text("utf-8").splitlines():
        for span in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for event in span.get("events", ()):
                event["attributes"] = [a for a in event["attributes"] if a["key"] != "exception.stacktrace"]
            spans.append(span)
    return spans


def test_recording_again_gives_the_committed_spans(tmp_path):
    again = tmp_path / "spans.otlp.jsonl"
    run = [sys.executable, SAMPLE / "record.py", again]
    subprocess.run(run, check=True, timeout=60, capture_output=True)
    assert spans_of(again) == spans_of(SAMPLE / "spans.otlp.jsonl")


def test_the_recording_has_no_local_paths():
    recording = (SAMPLE / "spans.otlp.jsonl").read_text("utf-8")
    assert 'File \\"agent.py\\", line' in recording
    assert 'File \\"/' not in recording
