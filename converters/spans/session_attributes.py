"""The users, tags, versions, prompts and environments of sessions, wherever instrumentations put them.

The conventions of OpenTelemetry come first, then those of OpenInference, Langfuse, Traceloop and LangSmith.
They are read alike in the spans of every dialect. What the application gave to `session()` comes before all
of it. In traces that record no id otherwise, attributes may hold it, by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import orjson

from spangrade.converters.spans.observation import (
    Kind,
    Observation,
    SessionContext,
    Structure,
    shared_context,
)
from spangrade.converters.spans.values import (
    first_text,
    identity,
    json_object,
    objects,
    parse_json,
    text,
    texts,
)
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

_TRACELOOP = "traceloop.association.properties."
USERS = (
    semconv.USER_ID,
    "enduser.id",
    "langfuse.user.id",
    f"{_TRACELOOP}user_id",
    f"{_TRACELOOP}userId",
    "langsmith.metadata.user_id",
)
TAGS = (
    semconv.TAGS,
    "tag.tags",
    "langfuse.trace.tags",
    f"{_TRACELOOP}tags",
    "langsmith.span.tags",
)
VERSIONS = (semconv.AGENT_VERSION, "langfuse.version", "langfuse.release", f"{_TRACELOOP}version")
ENVIRONMENTS = (
    "deployment.environment.name",
    "deployment.environment",  # its name before version 1.27 of the conventions
    "langfuse.environment",
    f"{_TRACELOOP}environment",
)
# The name of a prompt and its version, as each registry writes them; the first known name of either counts.
PROMPTS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    ((), (semconv.PROMPT,)),
    (("gen_ai.prompt.name",), ("gen_ai.prompt.version",)),
    (("langfuse.observation.prompt.name",), ("langfuse.observation.prompt.version",)),
    (
        ("traceloop.prompt.key",),
        ("traceloop.prompt.version_name", "traceloop.prompt.version", "traceloop.prompt.version_hash"),
    ),
    (("prompt.id",), ("llm.prompt_template.version",)),  # OpenInference
    (("prompt_id",), ("prompt_version",)),  # Langtrace
    (("langsmith.metadata.lc_hub_repo",), ("langsmith.metadata.lc_hub_commit_hash",)),
)
# A list of prompts as JSON: of a span, or of the trace as a span repeats it.
_LINKED_PROMPTS = ("mlflow.linkedPrompts", "mlflow.traceTag.mlflow.linkedPrompts")
_OF_PROMPTS = frozenset({*_LINKED_PROMPTS, *(name for kinds in PROMPTS for names in kinds for name in names)})
_Service: TypeAlias = tuple[str | None, str | None, str | None]
_newest: list[tuple[Mapping[str, Any], _Service]] = [({}, (None, None, None))]
_NAMES = frozenset({*USERS, *TAGS, *VERSIONS, *ENVIRONMENTS, *_OF_PROMPTS, semconv.APP_NAME})


def session_of(observation: Observation, span: Span) -> SessionContext:
    """Return the session of a span, which its dialect may have read in part."""
    session, changes = observation.session, dict[str, Any]()
    if semconv.SESSION_ID in span.attributes:
        changes = _given(span.attributes)
        session = session._replace(**changes)
    if not _NAMES.isdisjoint(span.attributes):
        changes |= _of(span.attributes, session)
    # A web server around the agent has an environment and a name too, and is not the session's.
    if not isinstance(observation, Structure):
        environment, service, version = of_resource(span.resource)
        if environment is not None and environment != session.environment:
            changes.setdefault("environment", environment)
        if version is not None and not session.agent_version:
            changes.setdefault("agent_version", version)
        if service is not None and service != session.service_name:
            changes["service_name"] = service
    return shared_context(*session._replace(**changes)) if changes else session


def of_resource(resource: Mapping[str, Any]) -> _Service:
    """Return the environment, and the service's name and version, that a resource records."""
    newest, known = _newest[0]
    if newest is not resource:  # nearly all spans have that of the span before: it is 7% of reading one
        known = (
            first_text(map(resource.get, ENVIRONMENTS)),
            text(resource.get(semconv.SERVICE_NAME)),
            text(resource.get(semconv.SERVICE_VERSION)),
        )
        _newest[0] = resource, known
    return known


def _given(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the application's arguments of `session()`: beside them, a library's ids do not count."""
    found = {
        "conversation_id": identity(attributes[semconv.SESSION_ID]),
        "user_id": text(attributes.get(semconv.USER_ID)),
        "agent_version": text(attributes.get(semconv.AGENT_VERSION)),
    }
    return {name: value for name, value in found.items() if value is not None}


def _of(attributes: Mapping[str, Any], known: SessionContext) -> dict[str, Any]:
    """Return the fields of a session that attributes add to the known ones."""
    found = {
        "user_id": None if known.user_id else first_text(map(attributes.get, USERS)),
        "tags": None
        if known.tags
        else next((tags for name in TAGS if (tags := _tags(attributes.get(name)))), None),
        "agent_version": None if known.agent_version else first_text(map(attributes.get, VERSIONS)),
        "environment": first_text(map(attributes.get, ENVIRONMENTS)),
        "app_name": text(attributes.get(semconv.APP_NAME)),
        "prompts": None if _OF_PROMPTS.isdisjoint(attributes) else _prompts(attributes),
    }
    return {name: value for name, value in found.items() if value is not None}


def _tags(value: Any) -> tuple[str, ...]:
    """Return tags: those of a list, of a JSON list in a text, or of a text with commas."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return ()
    if isinstance(value, str):
        return tuple(tag.strip() for tag in value.split(",") if tag.strip())
    return tuple(texts(value))


def _prompts(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the prompts that a span names, each `name@version`, a name or a version."""
    found = []
    for names, versions in PROMPTS:
        known = [_first_word(attributes, kinds) for kinds in (names, versions)]
        if any(known):
            found.append("@".join(filter(None, known)))
    for linked in _LINKED_PROMPTS:
        listed = objects(parse_json(attributes.get(linked)))
        words = ([_first_word(one, (name,)) for name in ("name", "version")] for one in listed)
        found += ["@".join(filter(None, known)) for known in words]
    return tuple(dict.fromkeys(filter(None, found)))


def _first_word(attributes: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return the first value that is a text or a number, as a text."""
    values = (attributes.get(name) for name in names)
    words = (str(value) for value in values if isinstance(value, str | int) and not isinstance(value, bool))
    return next((word for word in words if word.strip()), None)


_NAME_OF_ID = re.compile(
    r"(?:^|[._/-])(?:[sS]ession|[cC]onversation|[cC]hat|[tT]hread)[._-]?[iI][dD]$"
    r"|[a-z0-9](?:Session|Conversation|Chat|Thread)I[dD]$"
)
_METADATA = re.compile(r"(?:^|[._])metadata$")
# Ids of a transport, a browser, a machine: an operating system's thread, a queue's conversation. Those of the
# conventions are read already, or are not a session's.
_OTHERS = re.compile(
    r"^(?:thread\.id$|(?:aws|browser|client|code|db|faas|gen_ai|http|k8s|messaging|net|network|process|rpc|rum|"
    r"server|tls|url)\.)|(?:^|[._])(?:connection|jsonrpc|mcp|rpc|sse|streamable_?http|transport|websocket|ws)[._]",
    re.IGNORECASE,
)
# On the spans of web servers, too: the conversation's, unless something says that it is a browser's.
_OF_BROWSERS = "session.id"
_BROWSER = ("browser.", "rum.", "screen.", "session.previous_id")
_MOST_NAMES = 4096
_not_candidates: set[str] = set()  # the names that were looked at: nearly all spans have only such


def session_candidates(
    attributes: Mapping[str, Any], kind: Kind, resource: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the different texts in a span's attributes that may be the id of its session."""
    names = attributes.keys() - _not_candidates
    if not names:
        return ()
    of_browser = kind == "other" and _OF_BROWSERS in names and _says_browser(attributes, resource)
    found = dict.fromkeys(_found(attributes, names - {_OF_BROWSERS} if of_browser else names))
    return tuple(sorted(found))


def _says_browser(attributes: Mapping[str, Any], resource: Mapping[str, Any]) -> bool:
    agent = text(attributes.get("user_agent.original")) or ""
    return (
        resource.get("telemetry.sdk.language") == "webjs"
        or agent.startswith("Mozilla/")
        or any(name.startswith(_BROWSER) for name in (*attributes, *resource))
    )


def _found(attributes: Mapping[str, Any], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if _METADATA.search(name):
            values = json_object(attributes[name])
            yield from (value for key in values if is_candidate(key) and (value := identity(values[key])))
        elif not is_candidate(name):
            if len(_not_candidates) < _MOST_NAMES:
                _not_candidates.add(name)
        elif value := identity(attributes[name]):
            yield value


def is_candidate(name: str) -> bool:
    """Return whether an attribute of this name may hold the id of a session."""
    return _NAME_OF_ID.search(name) is not None and _OTHERS.search(name) is None


def placeholder_in(attributes: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return the first attribute that is named like a session's id and has what is none, with its value."""
    for name in sorted(attributes):
        is_named = _NAME_OF_ID.search(name) and (name.startswith("gen_ai.") or not _OTHERS.search(name))
        if is_named and attributes[name] is not None and identity(attributes[name]) is None:
            return name, attributes[name]
    return None


def candidate_names(attributes: Mapping[str, Any]) -> list[str]:
    """Return the names of the attributes of a span that may hold the id of its session, for people."""
    return sorted(name for name in attributes if is_candidate(name) and identity(attributes[name]))
