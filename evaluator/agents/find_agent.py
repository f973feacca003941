"""The agent that a text such as `package.module:name` or `file.py:name` names, or that of the settings."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from spangrade.evaluator.agents.exchange import last_own_line
from spangrade.tracer.base.errors import InputError, text_of
from spangrade.tracer.base.fields import FieldError

if TYPE_CHECKING:
    from spangrade.evaluator.settings import RunSettings

_FORM = "expected package.module:name or file.py:name"


def agent_of(settings: RunSettings) -> Any:
    """Return the agent that the table `run` of the settings names. Raises InputError if it names none."""
    if settings.agent is not None:
        return settings.agent
    from spangrade.evaluator.agents.adapters.remote import ChatAgent, HttpAgent

    if settings.http is not None:
        return HttpAgent(settings.http, settings.http_body, settings.http_reply)
    if settings.openai is not None and settings.model is not None:
        return ChatAgent(settings.openai, settings.model)
    raise FieldError("agent", "expected an agent, here or in the table `run` of the settings")


def find_agent(text: str) -> Any:
    """Return the agent that a text names; its module is imported from the folder of the file, or from here.

    Raises InputError if there is no such module or name, if the module needs a package that is not installed,
    and for whatever else it raises when it is imported.
    """
    module_name, colon, name = text.rpartition(":")
    if not colon or not module_name or not name:
        raise InputError(f"{text}: {_FORM}")
    try:
        module = _of_file(Path(module_name)) if module_name.endswith(".py") else _of_name(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise InputError(f"{text}: there is no module {error.name!r} here; {_FORM}") from error
        raise InputError(f"{text}: it needs the package {error.name!r}, which is not installed") from error
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # third-party code: the agent's module
        place = last_own_line(error)
        raise InputError(
            f"{text}: its module raises {text_of(error)}{f' ({place})' if place else ''}"
        ) from error
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"{text}: {module_name} has no {part!r}; {_FORM}")
        found = getattr(found, part)
    return found


def identity_of(agent: Any, name: str | None = None) -> str:
    """Return a text that another agent does not have, nor the same one once its own module has changed.

    `name` is the text that names it, if one does. If an agent is an object of another package's class, only
    the class is known, unless a text names it.
    """
    from spangrade.evaluator.agents.adapters.remote import ChatAgent, HttpAgent

    if isinstance(agent, HttpAgent | ChatAgent):
        return repr(agent)
    of = agent if hasattr(agent, "__qualname__") else type(agent)
    module, named = of.__module__, of.__qualname__
    if name is not None:
        module, _, named = name.rpartition(":")
        module = Path(module).stem if module.endswith(".py") else module
    file = getattr(sys.modules.get(module), "__file__", None)
    code = Path(file).read_bytes() if file and Path(file).is_file() else b""
    return f"{module}:{named} {sha256(code).hexdigest()}"


def version_of(identity: str) -> str:
    """Return the agent and the state of its source file, as `agent:answer@1f2e3d4c`, for a name."""
    named, _, digest = identity.rpartition(" ")
    if len(digest) != 64:  # a server, whose source is not known
        return ""
    module, _, name = named.rpartition(":")
    short = f"{module.rpartition('.')[2]}:{name.rpartition('.')[2]}"[:60]
    return f"{short}@{digest[:8]}" if name else ""


def _of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"{path}: no such file; {_FORM}")
    _import_from(path.parent)
    name = path.stem
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__file__ and Path(loaded.__file__).resolve() == path.resolve():
        return loaded
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: expected a file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _of_name(name: str) -> ModuleType:
    _import_from(Path.cwd())
    return importlib.import_module(name)


def _import_from(folder: Path) -> None:
    """Let modules be imported from a folder, as Python does for a script in it."""
    if (path := str(folder.resolve())) not in sys.path:
        sys.path.insert(0, path)
