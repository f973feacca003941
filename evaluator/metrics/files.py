"""Metrics from files: definitions (`.json`), queries (`.sql`) and Python modules (`.py`)."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from spangrade.evaluator.metrics.judged import load_judged
from spangrade.evaluator.metrics.metric import Metric
from spangrade.evaluator.metrics.queries import load_query
from spangrade.evaluator.metrics.registry import load_metrics, parse_metrics
from spangrade.tracer.errors import InputError

JUDGE = "@judge"


def requested(texts: Iterable[str], files: Sequence[Path]) -> tuple[Metric, ...]:
    """The metrics asked for by name, as by `parse_metrics`, and after them the others that files define."""
    known, own = with_files(files)
    asked = parse_metrics(texts, known)
    named = {metric.name.partition(":")[0] for metric in asked}
    # One that needs a parameter can only be asked for by name.
    rest = [m for m in own if m.name not in named and (m.parameter is None or m.choices)]
    return (*asked, *rest)


def with_files(files: Sequence[Path]) -> tuple[Mapping[str, Metric], tuple[Metric, ...]]:
    """The installed metrics and those of files by name, and those of files alone.

    A judged metric whose name one of another kind has gets the name with `@judge` behind it, and comes in
    the place of an installed judged one. Raises `InputError` for a file that cannot be used, and for a name
    that is taken.
    """
    installed = load_metrics()
    own: dict[str, Metric] = {}
    for path in files:
        for metric in _load(path):
            if installed.get(metric.name) is metric:  # imported by a module, for its own use
                continue
            judged = path.suffix == ".json"
            if judged and metric.name in installed and not metric.name.endswith(JUDGE):
                metric = replace(metric, name=metric.name + JUDGE)
            if metric.name in own or (metric.name in installed and not judged):
                raise InputError(f'{path}: the name "{metric.name}" is taken')
            own[metric.name] = metric
    return {**installed, **own}, tuple(own.values())


def _load(path: Path) -> tuple[Metric, ...]:
    if path.suffix == ".json":
        return load_judged(path)
    if path.suffix == ".sql":
        return (load_query(path),)
    if path.suffix == ".py":
        return _load_module(path)
    raise InputError(f"{path}: metrics are read from .json, .sql and .py files")


def _load_module(path: Path) -> tuple[Metric, ...]:
    """The metrics in a module's own namespace. Raises `InputError`, with the line, if it cannot be loaded."""
    name = f"spangrade_metrics_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"{path}: cannot be read: no such file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"{path}:{error.lineno}: {error.msg}") from error
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        where = f"{path}:{lines[-1]}" if lines else str(path)
        raise InputError(f"{where}: {type(error).__name__}: {error}") from error
    found = {id(value): value for value in vars(module).values() if isinstance(value, Metric)}
    if not found:
        raise InputError(f"{path}: no metric in it; right is a function under @metric()")
    return tuple(found.values())
