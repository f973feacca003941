"""Where scores are sent: an OTLP receiver, or the API of Phoenix or MLflow, whose OTLP takes no events.

A destination is a URL. `http://HOST` is an OTLP receiver, which gets an event per score;
`phoenix+http://HOST` gets annotations of spans and `mlflow+http://HOST` assessments of traces. The keys are
those of the tool's own client, in the environment.
"""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

import orjson

from spangrade.evaluator.watch.events import SpanPlace
from spangrade.evaluator.watch.options import destination_url
from spangrade.evaluator.watch.telemetry import Events
from spangrade.evaluator.watch.webhook import status_text
from spangrade.tracer import semconv
from spangrade.tracer.base.canonical_json import dumps

_DEADLINE_S = 10.0
_MAX_ANSWER = 16 * 2**20  # bytes
_SPAN_ID = re.compile(r"\b(?:[0-9a-f]{32}|[0-9a-f]{16})\b")
_OURS = "spangrade"
_MISSING = "does not have"


class Scored(NamedTuple):
    """A score as an event (`trace_id`, `span_id`, `attributes`), its time, and what it takes the place of.

    `replaces` are the other places where the destination has, or may have, an earlier score of the same.
    """

    event: Mapping[str, Any]
    time_ns: int
    replaces: tuple[SpanPlace, ...] = ()

    @property
    def place(self) -> SpanPlace:
        """The span, or the trace, that it is about."""
        return SpanPlace(self.event["trace_id"], self.event["span_id"])


class Destination(Protocol):
    """Where scores are sent; `url` names it, without a secret."""

    @property
    def url(self) -> str:
        """The URL, in one form."""
        ...

    def send(self, scores: Sequence[Scored]) -> list[str]:
        """Send scores; return why each was not accepted, empty if it was."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


def destination_at(url: str, scope: str) -> Destination:
    """Return the destination of a URL; events have the instrumentation scope `scope`."""
    url = destination_url(url)
    kind, _, _ = urlsplit(url).scheme.rpartition("+")
    return _KINDS[kind](url, scope)


class OtlpReceiver:
    """An OTLP receiver, over HTTP or gRPC as OTEL_EXPORTER_OTLP_PROTOCOL says; it takes all or nothing."""

    def __init__(self, url: str, scope: str) -> None:
        self.url = url
        self._events = Events(url, scope)

    def send(self, scores: Sequence[Scored]) -> list[str]:
        """Send scores as events in one request."""
        accepted = self._events.send([(one.event, one.time_ns) for one in scores])
        return ["" if accepted else "refused the events"] * len(scores)

    def close(self) -> None:
        """Close the connection."""
        self._events.close()


class Phoenix:
    """Phoenix's API of annotations: `POST /v1/span_annotations`, and `/v1/trace_annotations` without a span.

    An annotation has the identifier of its session and question, by which Phoenix replaces one of the same
    span and name. Where the score that it replaces is on another span, that one is marked `superseded`.
    The key is in $PHOENIX_API_KEY.
    """

    def __init__(self, url: str, scope: str) -> None:
        self.url = url
        self._scope = scope
        key = os.environ.get("PHOENIX_API_KEY")
        self._api = _Api(url, {"Authorization": f"Bearer {key}"} if key else {})

    def send(self, scores: Sequence[Scored]) -> list[str]:
        """Send scores; one of a span that Phoenix does not have is refused, and no other."""
        outdated = [
            (number, (place, {**_annotation(one, self._scope), "result": {"label": "superseded"}}))
            for number, one in enumerate(scores)
            for place in one.replaces
        ]
        errors = self._post([(one.place, _annotation(one, self._scope)) for one in scores])
        for (number, _), error in zip(outdated, self._post([one for _, one in outdated]), strict=True):
            if not error.startswith(_MISSING):  # what is about a span that is gone is gone, too
                errors[number] = errors[number] or error
        return errors

    def close(self) -> None:
        """Close the connection."""
        self._api.close()

    def _post(self, annotations: Sequence[tuple[SpanPlace, dict[str, Any]]]) -> list[str]:
        errors = [""] * len(annotations)
        for path, key in (("span_annotations", "span_id"), ("trace_annotations", "trace_id")):
            waiting = {
                number: {key: place.span_id or place.trace_id, **annotation}
                for number, (place, annotation) in enumerate(annotations)
                if (place.span_id is None) is (key == "trace_id")
            }
            while waiting:
                try:
                    status, answer = self._api.request(
                        "POST", f"/v1/{path}?sync=true", {"data": list(waiting.values())}
                    )
                    error = "" if status < 300 else f"answered {status_text(status)}"
                except _NoAnswerError as no_answer:
                    status, answer, error = 0, b"", str(no_answer)
                unknown = set(_SPAN_ID.findall(answer.decode(errors="replace"))) if status == 404 else set()
                missing = {number for number, one in waiting.items() if one[key] in unknown}
                for number in missing or waiting:
                    what = f"{key.removesuffix('_id')} {waiting[number][key]}"
                    errors[number] = f"{_MISSING} {what}" if missing else error
                waiting = {number: waiting[number] for number in waiting.keys() - missing if missing}
        return errors


class Mlflow:
    """MLflow's API of assessments: `POST /api/3.0/mlflow/traces/{id}/assessments`.

    What MLflow has of a session, question and name already is not sent again, and is overridden by another
    score. The keys are in $MLFLOW_TRACKING_TOKEN, or in $MLFLOW_TRACKING_USERNAME and `…_PASSWORD`.
    """

    def __init__(self, url: str, scope: str) -> None:
        self.url = url
        self._scope = scope
        names = (f"MLFLOW_TRACKING_{name}" for name in ("TOKEN", "USERNAME", "PASSWORD"))
        token, user, password = (os.environ.get(name, "") for name in names)
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        authorization = f"Bearer {token}" if token else f"Basic {login}"
        self._api = _Api(url, {"Authorization": authorization} if token or user else {})

    def send(self, scores: Sequence[Scored]) -> list[str]:
        """Send scores, one request each; those of a trace that MLflow does not have are refused."""
        stored: dict[str, list[dict[str, Any]]] = {}
        errors = []
        for one in scores:
            try:
                self._send(one, stored)
            except _NoAnswerError as error:
                errors.append(str(error))
            else:
                errors.append("")
        return errors

    def close(self) -> None:
        """Close the connection."""
        self._api.close()

    def _send(self, one: Scored, stored: dict[str, list[dict[str, Any]]]) -> None:
        """Send a score; `stored` are the assessments of the traces that were read. Raises _NoAnswerError."""
        new = _assessment(one, self._scope)
        trace_id = one.event["trace_id"]
        earlier = self._earlier(new, trace_id, stored)
        if earlier is None or any(earlier.get(key) != value for key, value in new.items()):
            overrides = {} if earlier is None else {"overrides": earlier["assessment_id"]}
            body = {"assessment": {**new, **overrides, "trace_id": f"tr-{trace_id}", **_times(one.time_ns)}}
            made = self._json("POST", f"{_trace_path(trace_id)}/assessments", body).get("assessment")
            stored[trace_id].append(made if isinstance(made, dict) else {})
        for other in {place.trace_id for place in one.replaces} - {trace_id}:
            with suppress(_NotThereError):  # what is about a trace that is gone is gone, too
                if (outdated := self._earlier(new, other, stored)) is not None:
                    name = quote(str(outdated["assessment_id"]), safe="")
                    self._json("DELETE", f"{_trace_path(other)}/assessments/{name}")
                    stored[other].remove(outdated)

    def _earlier(
        self, new: Mapping[str, Any], trace_id: str, stored: dict[str, list[dict[str, Any]]]
    ) -> dict[str, Any] | None:
        """Return the last assessment of a trace that is of the session, question and name of another."""
        if trace_id not in stored:
            trace = self._json("GET", _trace_path(trace_id)).get("trace")
            info = trace.get("trace_info") if isinstance(trace, dict) else None
            found = info.get("assessments") if isinstance(info, dict) else None
            listed = found if isinstance(found, list) else []
            stored[trace_id] = [one for one in listed if isinstance(one, dict) and "assessment_id" in one]
        return next((one for one in reversed(stored[trace_id]) if _key(one) == _key(new)), None)

    def _json(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        status, answer = self._api.request(method, path, body)
        if status == 404:
            raise _NotThereError(f"{_MISSING} trace {path.split('/')[5]}")
        if status >= 300:
            raise _NoAnswerError(f"answered {status_text(status)}")
        try:
            parsed = orjson.loads(answer)
        except orjson.JSONDecodeError:
            parsed = None
        if not isinstance(parsed, dict):
            raise _NoAnswerError("its answer is not that of MLflow")
        return parsed


def _annotation(one: Scored, scope: str) -> dict[str, Any]:
    """Return a score as an annotation of Phoenix, without the id of its span."""
    attributes = one.event["attributes"]
    return {
        "name": attributes[semconv.EVALUATION_NAME],
        "annotator_kind": "LLM" if attributes.get(semconv.EVALUATOR_TYPE) == "llm_judge" else "CODE",
        "identifier": ":".join((_OURS, *_session_and_question(attributes))),
        "result": {
            "score": attributes.get(semconv.EVALUATION_SCORE_VALUE),
            "label": attributes.get(semconv.EVALUATION_SCORE_LABEL),
            "explanation": attributes.get(semconv.EVALUATION_EXPLANATION),
        },
        "metadata": _provenance(one, scope),
    }


def _assessment(one: Scored, scope: str) -> dict[str, Any]:
    """Return a score as an assessment of MLflow, without its times and its trace."""
    attributes = one.event["attributes"]
    explanation = attributes.get(semconv.EVALUATION_EXPLANATION)
    label = attributes.get(semconv.EVALUATION_SCORE_LABEL)
    value = attributes.get(semconv.EVALUATION_SCORE_VALUE)
    error = {"error_code": label, "error_message": explanation or label}
    return {
        "assessment_name": attributes[semconv.EVALUATION_NAME],
        **({} if one.event["span_id"] is None else {"span_id": one.event["span_id"]}),
        "source": {
            "source_type": "LLM_JUDGE" if attributes.get(semconv.EVALUATOR_TYPE) == "llm_judge" else "CODE",
            "source_id": _OURS,
        },
        "feedback": {"value": None, "error": error} if value is None else {"value": value},
        **({"rationale": explanation} if explanation else {}),
        "metadata": {name: str(value) for name, value in _provenance(one, scope).items()},
    }


def _provenance(one: Scored, scope: str) -> dict[str, Any]:
    """Return what is known of an evaluation beside its result: who evaluated, in which run, which session."""
    result = (semconv.EVALUATION_NAME, semconv.EVALUATION_SCORE_VALUE, semconv.EVALUATION_EXPLANATION)
    attributes = {name: value for name, value in one.event["attributes"].items() if name not in result}
    return {**attributes, "otel.scope.name": scope}


def _session_and_question(attributes: Mapping[str, Any]) -> tuple[str, str]:
    return attributes.get(semconv.CONVERSATION_ID, ""), attributes.get(semconv.QUESTION_ID, "")


def _key(assessment: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return what an assessment of ours is about; None for one of others, and one that was overridden."""
    source, metadata = assessment.get("source"), assessment.get("metadata")
    if not isinstance(source, dict) or not isinstance(metadata, dict):
        return None
    if source.get("source_id") != _OURS or assessment.get("valid") is False:
        return None
    return assessment.get("assessment_name"), *_session_and_question(metadata)


def _times(time_ns: int) -> dict[str, str]:
    text = datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    return dict.fromkeys(("create_time", "last_update_time"), text.replace("+00:00", "Z"))


def _trace_path(trace_id: str) -> str:
    return f"/api/3.0/mlflow/traces/tr-{trace_id}"


class _NoAnswerError(Exception):
    """No answer came, or one that cannot be used; its text says why."""


class _NotThereError(_NoAnswerError):
    """The trace is not there."""


class _Api:
    """An API of JSON over HTTP: an answer is read for 10 s and 16 MB at most; no redirect is followed."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        import httpx2

        self._base = url.partition("+")[2]
        self._client = httpx2.Client(headers=dict(headers), timeout=_DEADLINE_S, follow_redirects=False)

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Return the status and the text of the answer to a request. Raises _NoAnswerError if none comes."""
        import httpx2

        give_up_s = time.monotonic() + _DEADLINE_S
        content = None if body is None else dumps(body).encode("utf-8", "replace")
        headers = {} if body is None else {"Content-Type": "application/json"}
        read = bytearray()
        try:
            with self._client.stream(method, self._base + path, content=content, headers=headers) as answer:
                for chunk in answer.iter_bytes():
                    read += chunk
                    if len(read) > _MAX_ANSWER or time.monotonic() > give_up_s:
                        raise _NoAnswerError("its answer is too long")
                return answer.status_code, bytes(read)
        except httpx2.TimeoutException:
            raise _NoAnswerError(f"no answer within {_DEADLINE_S:g} s") from None
        except httpx2.HTTPError as error:
            raise _NoAnswerError(f"{type(error).__name__}: cannot be reached") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


_KINDS: dict[str, Callable[[str, str], Destination]] = {
    "": OtlpReceiver,
    "phoenix": Phoenix,
    "mlflow": Mlflow,
}
