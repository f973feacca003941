"""Transcripts of Claude Code: JSON Lines, a message each, in `~/.claude/projects/PROJECT/SESSION.jsonl`.

The lines of a session are read together. One answer of the model may be several lines, each with its id and
usage. Messages and calls of a sub-agent belong to an agent `subagent`; a line that Claude Code wrote in the
name of the user begins no turn.

https://docs.claude.com/en/docs/claude-code/hooks (transcript_path)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spangrade.converters.recordings import plain
from spangrade.converters.recordings.conversations import RecordedConversation, Said
from spangrade.converters.recordings.messages import of_model, read_all
from spangrade.converters.spans.messages import Message, message_of, with_results
from spangrade.converters.spans.values import text
from spangrade.tracer import semconv
from spangrade.tracer.otlp.common import MalformedError
from spangrade.tracer.span import Problem, Span

_AGENT, _SUBAGENT = "claude-code", "subagent"
_SPOKEN = ("user", "assistant")
# Lines without a session's id with which a transcript may begin.
_OTHERS = frozenset({"summary", "file-history-snapshot", "custom-title", "ai-title"})
_WRITTEN_BY_ITSELF = ("<command-", "<local-command-", "Caveat: ", "[Request interrupted")


def read(document: Any) -> Iterator[Span | Problem] | None:
    """Return the lines of a transcript as spans, a session for each of its ids; None for something else."""
    lines = document if isinstance(document, list) else [document]
    if not lines or not is_line(lines[0]):
        return None
    sessions: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if not isinstance(line, dict) or not isinstance(kind := line.get("type"), str):
            continue
        if kind in _SPOKEN and isinstance(line.get("sessionId"), str):
            sessions.setdefault(line["sessionId"], []).append(line)
    if not sessions:
        return iter([Problem("", "a transcript of Claude Code without a message")])
    return read_all([(one, session) for session, one in sessions.items()], _conversation)


def is_line(document: Any) -> bool:
    """Return whether a document is a line of a transcript."""
    if not isinstance(document, dict) or not isinstance(kind := document.get("type"), str):
        return False
    if kind in _SPOKEN:
        return isinstance(document.get("message"), dict) and {"sessionId", "uuid"} <= document.keys()
    return kind in _OTHERS or isinstance(document.get("sessionId"), str)


read.__dict__["gathers"] = is_line  # see `Reader`


def _conversation(lines: Sequence[Mapping[str, Any]]) -> RecordedConversation:
    answers: dict[str, int] = {}
    said: list[Said] = []
    for line in lines:
        raw = plain.json_object(line.get("message"), "message")
        time_ns = plain.time_ns(line.get("timestamp"), f"the timestamp of {line.get('uuid')}")
        message = message_of(raw)
        if message is None:
            raise MalformedError(f"the message of {line.get('uuid')}: expected a role and a content")
        if message.role != "assistant":
            said.append(Said(_of_user(message, line), time_ns))
            continue
        agent = _SUBAGENT if line.get("isSidechain") else _AGENT
        one = Said(message, time_ns, agent, of_model(raw))
        answer = text(raw.get("id"))
        if answer is not None and answer in answers:
            said[answers[answer]] = _joined(said[answers[answer]], one)
        else:
            if answer is not None:
                answers[answer] = len(said)
            said.append(one)
    version = next((found for line in lines if (found := text(line.get("version")))), None)
    about = {} if version is None else {semconv.AGENT_VERSION: version}
    return RecordedConversation(lines[0]["sessionId"], said, about=about)


def _of_user(message: Message, line: Mapping[str, Any]) -> Message:
    """Return a message of the user without its text where Claude Code, or the agent, wrote that."""
    own = line.get("isMeta") or line.get("isSidechain") or line.get("isCompactSummary")
    if own or (message.text or "").startswith(_WRITTEN_BY_ITSELF):
        return message._replace(text=None)
    return message


def _joined(first: Said, second: Said) -> Said:
    texts = [one.message.text for one in (first, second) if one.message.text is not None]
    one, other = first.message, second.message
    calls, results = with_results(
        (*one.tool_calls, *other.tool_calls), (*one.tool_results, *other.tool_results)
    )
    message = Message(
        one.role,
        "".join(texts) if texts else None,
        calls,
        results,
        (*one.unread, *other.unread),
        one.code_runs + other.code_runs,
    )
    return first._replace(message=message, attributes=second.attributes)
