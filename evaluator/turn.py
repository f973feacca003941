"""The turns of a conversation as a test describes them: user turns, and the expected agent turns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from spangrade.converters.datasets.golden_text import parse_yaml
from spangrade.tracer.base.canonical_json import json_value
from spangrade.tracer.base.errors import InputError, type_name
from spangrade.tracer.base.json_text import parse_written, refusal

_CONFIG = ConfigDict(extra="forbid")
_T = TypeVar("_T")


@dataclass(frozen=True, config=_CONFIG)
class ToolCall:
    """One call of a tool. In an expected turn, `arguments` or `result` of None is not compared.

    `arguments={}` expects a call without arguments. `result` is any JSON value. Both may have the `$` words
    of docs/golden_questions.md; `match` says how the arguments of this call are compared, whatever
    `extra_keys` says. In JSON and YAML the names of golden files are read, too: `tool_name`,
    `input_arguments`, `output`.
    """

    name: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("name", "tool_name"))]
    arguments: Annotated[
        dict[str, JsonValue] | None, Field(validation_alias=AliasChoices("arguments", "input_arguments"))
    ] = None
    result: Annotated[JsonValue, Field(validation_alias=AliasChoices("result", "output"))] = None
    match: Literal["subset", "exact", "superset", "ignore"] | None = None


@dataclass(frozen=True, config=_CONFIG)
class TurnEvent:
    """Something that the agent did beside its text and its calls, such as ending or transferring a call.

    `name` is that of the event's class; `fields` are its values. In an expected turn, `fields` of None are
    not compared.
    """

    name: Annotated[str, Field(min_length=1)]
    fields: dict[str, JsonValue] | None = None


def event_of(value: object) -> object:
    """Return an event of an SDK as a `TurnEvent`; a name, or an object of JSON, as it is to be parsed."""
    if isinstance(value, str):
        return TurnEvent(value)
    if value is None or isinstance(value, TurnEvent | dict):
        return value
    fields = json_value(value)
    return TurnEvent(type_name(value), fields if isinstance(fields, dict) else None)


@dataclass(frozen=True, config=_CONFIG)
class UserTurn:
    """The user's message. `test_note` is for the reader of the test and is never compared."""

    text: str
    test_note: str | None = None


@dataclass(frozen=True, config=_CONFIG)
class AgentTurn:
    """The agent's answer, or the expected answer.

    In an expected turn, `text` is a text with the same meaning, `"*"` for any text, `"<statement>"` for a
    text that satisfies the statement, or a list of such alternatives. `tool_calls` of None is not compared;
    an empty list expects that no tool is called. With `other_calls`, the agent may call tools beyond these.
    `events` are the events that the agent yields beside its text and calls, in order: a `TurnEvent`, the
    name of its class, or an event of the SDK itself. Those of None are not compared, and are reported.
    """

    text: str | Annotated[list[str], Field(min_length=1)]
    tool_calls: list[ToolCall] | None = None
    test_note: str | None = None
    other_calls: bool = False
    events: list[Annotated[TurnEvent, BeforeValidator(event_of)]] | None = None


Turn = UserTurn | AgentTurn


@dataclass(frozen=True, config=_CONFIG)
class Conversation:
    """Alternating turns of user and agent, the last of the agent.

    The agent may open, with `initial_agent_message` or with the first turn.
    """

    turns: list[Turn] = field(default_factory=list)
    initial_agent_message: str | None = None
    test_note: str | None = None


_USER: TypeAdapter[Turn] = TypeAdapter(UserTurn)
_AGENT: TypeAdapter[Turn] = TypeAdapter(AgentTurn)
_ROLES = {"user": _USER, "agent": _AGENT, "assistant": _AGENT}
_TEXT_OR_NONE: TypeAdapter[str | None] = TypeAdapter(str | None)


def load_conversation(path: str | Path) -> Conversation:
    """Return the conversation in a `.json`, `.yaml` or `.yml` file.

    The file contains a list of turns, or an object with `turns` and, optionally, `initial_agent_message` and
    `test_note`. A turn is an object with a `role`, `user` or `agent` (or `assistant`), and the fields of
    `UserTurn` or `AgentTurn`.

    Raises:
        InputError: the file is not such a conversation; names the file, the turn (from 1) and the field.
    """
    path = Path(path)
    content = _read(path)
    if isinstance(content, list):
        content = {"turns": content}
    if not isinstance(content, dict) or not isinstance(content.get("turns"), list):
        raise InputError(f"{path}: expected a list of turns, or an object with a list of them under 'turns'")
    if unknown := sorted(
        str(key) for key in content.keys() - {"turns", "initial_agent_message", "test_note"}
    ):
        raise InputError(
            f"{path}: unknown key {unknown[0]!r}; known: turns, initial_agent_message, test_note"
        )
    texts = {}
    for key in ("initial_agent_message", "test_note"):
        texts[key] = _parse(_TEXT_OR_NONE, content.get(key), f"{path}: {key}")
    turns = [_parse_turn(turn, f"{path}: turn {number}") for number, turn in enumerate(content["turns"], 1)]
    check_conversation(turns, str(path))
    return Conversation(turns, **texts)


def load_conversation_json(path: str | Path) -> list[Turn]:
    """Return the turns of the conversation in a file; see `load_conversation`."""
    return load_conversation(path).turns


def make_turn(data: Mapping[str, Any]) -> Turn:
    """Return the turn that an object with a `role`, as `load_conversation` reads it, describes.

    Raises:
        InputError: it is not such an object; names the field.
    """
    return _parse_turn(data, "turn")


def check_conversation(turns: Sequence[Turn], where: str = "conversation") -> None:
    """Raise `InputError` unless the turns of user and agent alternate, and end with the agent.

    Its message names `where`, the turn (from 1) and what is expected.
    """
    if not turns:
        raise InputError(f"{where}: there are no turns; write a UserTurn and the expected AgentTurn")
    for number, turn in enumerate(turns, 1):
        if not isinstance(turn, UserTurn | AgentTurn):
            kind = type(turn).__name__
            raise InputError(f"{where}: turn {number} is of type {kind}, expected a UserTurn or an AgentTurn")
    for number, (before, turn) in enumerate(pairwise(turns), 2):
        if isinstance(before, UserTurn) == isinstance(turn, UserTurn):
            kind = "a UserTurn" if isinstance(turn, UserTurn) else "an AgentTurn"
            raise InputError(f"{where}: turn {number} is {kind}, as the turn before it is: turns alternate")
    if len(turns) == 1 and isinstance(turns[0], AgentTurn):
        raise InputError(f"{where}: there is no UserTurn, so the agent would not run")
    if isinstance(turns[-1], UserTurn):
        raise InputError(
            f"{where}: turn {len(turns)}, the last, is a UserTurn; end with the expected AgentTurn"
        )


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    if path.suffix == ".json":
        try:
            return parse_written(text)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}: {refusal(error)}") from error
    if path.suffix in {".yaml", ".yml"}:
        try:
            return parse_yaml(text)
        except ValueError as error:
            raise InputError(f"{path}: not YAML: {error}") from error
    raise InputError(f"{path}: expected a file that ends in .json, .yaml or .yml")


def _parse_turn(turn: Any, where: str) -> Turn:
    if not isinstance(turn, Mapping):
        raise InputError(f"{where}: expected an object with 'role' and 'text', found {turn!r:.80}")
    fields = dict(turn)
    role = fields.pop("role", None)
    if not isinstance(role, str) or role not in _ROLES:
        raise InputError(f"{where}: role: expected 'user', 'agent' or 'assistant', found {role!r:.80}")
    return _parse(_ROLES[role], fields, f"{where} ({role})")


def _parse(adapter: TypeAdapter[_T], value: Any, where: str) -> _T:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        found = "" if first["type"] == "missing" else f", found {first['input']!r:.80}"
        raise InputError(f"{where}: {f'{name}: ' if name else ''}{first['msg']}{found}") from error
