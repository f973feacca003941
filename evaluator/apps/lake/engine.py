"""The engines that run a lake's tasks, by name."""

from __future__ import annotations

from enum import StrEnum


class Engine(StrEnum):
    """The engine that runs the tasks."""

    LOCAL = "local"
    RAY = "ray"
