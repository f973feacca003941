"""Metrics from files: definitions (`.json`), queries (`.sql`) and Python modules (`.py`)."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, MappingProxyType

from spangrade.evaluator.metrics.judged import load_judged
from spangrade.evaluator.metrics.metric import Metric
from spangrade.evaluator.metrics.queries import load_query
from spangrade.evaluator.metrics.registry import load_metrics, parse_metrics
from spangrade.tracer.base.errors import InputError, text_of

JUDGE = "@judge"


def requested(
    metrics: Iterable[str | Metric],
    files: Sequence[Path],
    columns: Collection[str] = (),
    others: Mapping[str, Metric] = MappingProxyType({}),
) -> tuple[Metric, ...]:
    """Return the metrics that texts (`NAME>=T`) request, further metrics of files, and `Metric`s as given.

    `columns` are further columns, of the dataset, that definitions may use. `others` may be requested too,
    where no metric has their name. Raises InputError for a name that is not known, or is requested twice.
    """
    metrics = list(metrics)
    available, from_files = with_files(files, columns)
    texts = [metric for metric in metrics if isinstance(metric, str)]
    by_name = parse_metrics(texts, {**others, **available})
    names = {metric.name.partition(":")[0] for metric in by_name}
    # A metric that needs a parameter can only be requested by name.
    rest = [m for m in from_files if m.name not in names and not m.required]
    given = (replace(metric, where_given=metric.needs is not None) for metric in rest)
    found = {metric.name: metric for metric in (*by_name, *given)}
    for metric in metrics:
        if isinstance(metric, Metric) and found.setdefault(metric.name, metric) is not metric:
            raise InputError(f'metric "{metric.name}" is requested twice')
    return tuple(found.values())


def with_files(
    files: Sequence[Path], columns: Collection[str] = ()
) -> tuple[Mapping[str, Metric], tuple[Metric, ...]]:
    """Return all metrics, installed and of files, by name, and the metrics of files alone.

    A judged metric with the name of an installed one gets `@judge` added to its name, and replaces an
    installed judged metric of that name. Any other takes the place of an installed one of its name, so that a
    metric that comes with a new version refuses no file; but not of one that compares with a question, which
    may gate without being asked for. Raises `InputError` for a file that cannot be used, and for a name that
    another metric has.
    """
    installed = load_metrics()
    from_files: dict[str, Metric] = {}
    for path in files:
        for loaded in _load(path, columns):
            if installed.get(loaded.name) is loaded:  # imported by a module, for its own use
                continue
            metric = replace(loaded, version=sha256(path.read_bytes()).hexdigest())
            judged = path.suffix == ".json"
            if judged and metric.name in installed and not metric.name.endswith(JUDGE):
                metric = replace(metric, name=metric.name + JUDGE)
            beside = installed.get(metric.name)
            if metric.name in from_files or (beside is not None and beside.needs is not None and not judged):
                raise InputError(f'{path}: another metric has the name "{metric.name}"')
            from_files[metric.name] = metric
    return {**installed, **from_files}, tuple(from_files.values())


def in_place_of_installed(metrics: Iterable[Metric]) -> list[str]:
    """Return the names of metrics of files, other than judged ones, that installed metrics have, too."""
    installed = load_metrics()
    return [
        one.name for one in metrics if one.version and not one.name.endswith(JUDGE) and one.name in installed
    ]


def _load(path: Path, columns: Collection[str]) -> tuple[Metric, ...]:
    if path.suffix == ".json":
        return load_judged(path, columns)
    if path.suffix == ".sql":
        return (load_query(path),)
    if path.suffix == ".py":
        return _load_module(path)
    raise InputError(f"{path}: metrics are read from .json, .sql and .py files")


class _SourceAlone(SourceFileLoader):
    """Compiles the source each time.

    Bytecode that is kept beside it counts as current for a second after a change of the same length: a run
    would then have the version of the new file and the values of the old one.
    """

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 (importlib's signature)
        return self.source_to_code(self.get_data(self.path), self.path)


def _load_module(path: Path) -> tuple[Metric, ...]:
    """Return the metrics in a module's namespace. Raises `InputError`, with the line, if it fails to load."""
    name = f"spangrade_metrics_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceAlone(name, str(path)))
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"{path}: cannot be read: no such file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look up their module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"{path}:{error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        where = f"{path}:{lines[-1]}" if lines else str(path)
        raise InputError(f"{where}: {text_of(error)}") from error
    metrics = {id(value): value for value in vars(module).values() if isinstance(value, Metric)}
    if not metrics:
        raise InputError(f"{path}: no metric; expected a function with the decorator @metric()")
    return tuple(metrics.values())
