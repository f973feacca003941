"""The option `--config`, and how the settings of a project become the defaults of the options."""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spangrade.evaluator.cli.gone import GONE
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import OWN, OptionField
from spangrade.tracer.base.settings_file import FILE_VARIABLE

if TYPE_CHECKING:
    from spangrade.evaluator.settings import ProjectSettings
    from spangrade.tracer.base.settings import Loaded


def _use(context: typer.Context, file: Path | None) -> Path | None:
    """Make the settings the defaults of the command's options, and keep them for the command."""
    if not context.resilient_parsing:
        from spangrade.evaluator.settings import load_settings

        loaded = load_settings(file)
        context.default_map = {**_defaults(loaded, context), **(context.default_map or {})}
        context.obj = loaded
        if file is not None:
            os.environ[FILE_VARIABLE] = str(file.absolute())  # for what the command opens and starts
    return file


CONFIG = Annotated[
    Path | None,
    typer.Option(
        metavar="",
        envvar=FILE_VARIABLE,
        help="The file with settings.",
        show_default="the nearest spangrade.toml",
        is_eager=True,
        expose_value=False,
        callback=_use,
    ),
]


def is_given(context: typer.Context, parameter: str) -> bool:
    """Return whether an option is on the command line: its value is not from the settings."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def loaded_settings(context: typer.Context) -> Loaded[ProjectSettings]:
    """Return the settings that the option `--config` of a command loaded."""
    loaded: Loaded[ProjectSettings] = context.obj
    return loaded


_OWN: dict[str, dict[str, OptionField]] = {}  # the fields that are settings alone, by command and flag


def remember_settings(table: str, fields: Iterable[OptionField]) -> None:
    """Note which fields of a command are keys of the settings and variables alone."""
    _OWN[table] = {one.flag: one for one in fields if one.option.setting}


def setting_of(command: str, flag: str) -> str | None:
    """Return the key and the variable that took the place of an option of a command, None if none did."""
    one = _OWN.get(command, {}).get(flag)
    if one is None:
        return None
    key, variable = _place(command, one)
    return f"the setting {key}, or ${variable}"


def settings_alone(command: str) -> list[tuple[str, str, str]]:
    """Return the settings of a command that are no options: the key, the variable and what it is."""
    own = (one for one in _OWN.get(command, {}).values() if one.option.setting == OWN)
    return [(*_place(command, one), one.option.help) for one in own]


def settings_by_flag(command: str) -> dict[str, tuple[bool, str]]:
    """Return the settings of a command, as flags, each with whether it is a yes or no, and its variable."""
    return {
        flag: ("bool" in str(one.field.type), _place(command, one)[1])
        for flag, one in _OWN.get(command, {}).items()
    }


def _place(command: str, one: OptionField) -> tuple[str, str]:
    """Return the key of a field in the settings, and its variable."""
    from spangrade.evaluator.settings import ProjectSettings

    if one.option.setting != OWN:
        key = f"{one.option.setting}.{one.field.name}"
        return key, ProjectSettings.variables[key]
    name = one.parameter
    return f"options.{command}.{name}", one.option.variable or f"SPANGRADE_{command}_{name}".upper()


def key_of(command: str, one: OptionField) -> str:
    """Return the key of a field of a command in the settings."""
    return _place(command, one)[0]


def own_setting(context: typer.Context, command: str, one: OptionField, kind: Any) -> Any:
    """Return the value of a setting of a command, of a type: its variable, else its key, else its default.

    Raises InputError for a value of another type, or that is out of bounds.
    """
    key, variable = _place(command, one)
    loaded = loaded_settings(context)
    given = {
        name.replace("-", "_"): value for name, value in loaded.settings.options.get(command, {}).items()
    }
    value: Any = os.environ.get(variable)
    where = f"${variable}"
    if not value:
        if one.parameter not in given:
            return one.field.default
        value, where = given[one.parameter], f"{loaded.source(f'options.{command}')}: {key}"
    return _converted(value, where, one, kind)


def _converted(value: Any, where: str, one: OptionField, kind: Any) -> Any:
    from pydantic import TypeAdapter, ValidationError

    if isinstance(value, str) and "list" in str(kind):
        value = [item.strip() for item in value.split(",") if item.strip()]
    try:
        found = TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        expected = error.errors()[0]["msg"].replace("Input should be ", "expected ")
        raise InputError(f"{where}: {expected}, found {value!r}") from None
    least, most = one.option.least, one.option.most
    if found is not None and least is not None and not least <= found <= (found if most is None else most):
        raise InputError(
            f"{where}: expected {least:g}{' or more' if most is None else f' to {most:g}'}, found {found}"
        )
    return found


def _defaults(loaded: Loaded[ProjectSettings], context: typer.Context) -> dict[str, Any]:
    """Return the values of a command's options, by parameter, that settings give.

    Any option may be a key of the table of its command: `[options.serve]`. Raises InputError for a key that
    is none, and for the table of a command that went.

    What grades is filled in elsewhere, as it is in Python: `evaluator/settings.py`.
    """
    settings = loaded.settings
    command = context.info_name or (context.parent and context.parent.info_name) or ""
    values: dict[str, Any] = {"db": settings.database} if "database" in loaded.sources else {}
    if command == "lint":
        values["metrics_file"] = settings.metrics_files or None
    for table in settings.options:
        if table in GONE:
            text = f"there is no such command: did you mean spangrade {GONE[table]}?"
            raise InputError(f"{loaded.source(f'options.{table}')}: options.{table}: {text}")
    by_flag = {
        flag.removeprefix("--").replace("-", "_"): one.name
        for one in context.command.params
        for flag in one.opts
        if flag.startswith("--")
    }
    own = {one.parameter for one in _OWN.get(command, {}).values() if one.option.setting == OWN}
    for key, value in settings.options.get(command, {}).items():
        if key.replace("-", "_") in own:
            continue
        if (name := by_flag.get(key.replace("-", "_"))) is None:
            near = get_close_matches(key, [*by_flag, *own], n=1)
            hint = f'did you mean "{near[0]}"?' if near else "see docs/commands.md"
            raise InputError(
                f"{loaded.source(f'options.{command}')}: options.{command}: unknown key {key!r}; {hint}"
            )
        values[name] = value
    return {name: value for name, value in values.items() if value is not None}
