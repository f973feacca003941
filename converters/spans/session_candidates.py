"""Attributes that may hold the id of a session, by their names: of traces that record none otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from spangrade.converters.spans.observation import Kind
from spangrade.converters.spans.values import json_object, text

_NAME = re.compile(
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
            yield from (value for key in values if is_candidate(key) and (value := text(values[key])))
        elif not is_candidate(name):
            if len(_not_candidates) < _MOST_NAMES:
                _not_candidates.add(name)
        elif value := text(attributes[name]):
            yield value


def is_candidate(name: str) -> bool:
    """Return whether an attribute of this name may hold the id of a session."""
    return _NAME.search(name) is not None and _OTHERS.search(name) is None


def candidate_names(attributes: Mapping[str, Any]) -> list[str]:
    """Return the names of the attributes of a span that may hold the id of its session, for people."""
    return sorted(name for name in attributes if is_candidate(name) and text(attributes[name]))
