"""What the methods of a database take: one path, text or metric, or several."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from spangrade.evaluator.metrics import Metric

StrPath = str | PathLike[str]


def paths_of(paths: StrPath | Iterable[StrPath]) -> list[Path]:
    """Return one path or several as a list."""
    return [Path(paths)] if isinstance(paths, str | PathLike) else [Path(path) for path in paths]


def texts_of(texts: str | Iterable[str]) -> list[str]:
    """Return one text or several as a list."""
    return [texts] if isinstance(texts, str) else list(texts)


def metrics_of(metrics: str | Metric | Iterable[str | Metric]) -> list[str | Metric]:
    """Return one metric or several as a list, each as a text that requests it or as a value."""
    return [metrics] if isinstance(metrics, str | Metric) else list(metrics)
