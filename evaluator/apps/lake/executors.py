"""Where the tasks of a lake run: in processes of this machine, or in those of a Ray cluster.

An executor is a function like the built-in `map`: it calls a task for each of some jobs, wherever it likes,
and yields the results in the order of the jobs. A task may run more than once. Another engine needs no more.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from spangrade.evaluator.apps.lake.engine import Engine
from spangrade.evaluator.derive.sync.workers import InOrder, workers_in_order
from spangrade.tracer.base.errors import InputError, SpangradeError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.base.installation import to_install

_RETRIES = 3  # of a task whose process was killed
_SHARED_BYTES = 100 * 2**20  # of Ray's memory for objects: jobs and results are small
_MODE, _TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"
# What a Ray that is started here needs: a token of its own, no report of its use to Ray's makers, and workers
# that are as nice as this process: by Ray's default (15) they hardly run beside others on a busy machine.
_ENVIRONMENT = {_MODE: "token", "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}


def executor(engine: Engine, workers: int, address: str | None = None) -> AbstractContextManager[InOrder]:
    """Give an executor of processes of this machine, or of Ray; see `on_ray`."""
    if engine is Engine.RAY:
        return on_ray(workers, address)
    if address is not None:
        raise FieldError("ray_address", "it is for the engine ray")
    return workers_in_order(workers)


@contextmanager
def on_ray(workers: int, address: str | None = None) -> Iterator[InOrder]:
    """Give an executor of processes of the Ray cluster at an address, or of one started for it.

    A task whose process is killed runs again, on another machine if need be. Ray listens on all interfaces of
    a machine: who can reach it can run code there, so that its token is required. Raises InputError if ray is
    not installed or its tokens are switched off.
    """
    if os.environ.get(_MODE, "token") != "token":
        raise InputError(f"{_MODE} is {os.environ[_MODE]!r}: expected token, or who reaches Ray can run code")
    added = {name: value for name, value in _ENVIRONMENT.items() if name not in os.environ}
    if address is None and not os.environ.get(_TOKEN) and not os.environ.get(f"{_TOKEN}_PATH"):
        added[_TOKEN] = secrets.token_hex(32)
    os.environ.update(added)  # before ray is imported, which reads it
    folder = tempfile.mkdtemp(prefix="ray-")
    try:
        ray = _start(workers, address, folder)
        try:
            yield _in_order(ray, workers)
        finally:
            ray.shutdown()
    finally:
        for name in added:
            del os.environ[name]
        shutil.rmtree(folder, ignore_errors=True)


def _start(workers: int, address: str | None, folder: str) -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise InputError(f"the engine ray needs ray: {to_install('ray')}") from None
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        options |= {
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": _SHARED_BYTES,
            "_node_ip_address": "127.0.0.1",
            "_temp_dir": folder,
        }
    try:
        ray.init(address, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise SpangradeError(f"Ray at {address or 'this machine'}: {str(error).splitlines()[0]}") from error
    return ray


def _in_order(ray: Any, workers: int) -> InOrder:
    def in_order(function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
        task = ray.remote(max_retries=_RETRIES, num_cpus=1)(_call)
        started: deque[Any] = deque()
        for job in jobs:
            started.append(task.remote(function, job))
            if len(started) > 2 * workers:
                yield _result(ray, started.popleft())
        while started:
            yield _result(ray, started.popleft())

    return in_order


def _call(function: Callable[[Any], Any], job: Any) -> Any:
    """Do a task; Ray takes functions alone, and not all that can be called."""
    return function(job)


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, SpangradeError):
            raise cause from error
        raise SpangradeError(
            f"a task failed: {type(cause).__name__}: {str(cause).splitlines()[0]}"
        ) from error
    except ray.exceptions.RayError as error:
        raise SpangradeError(f"Ray lost a task: {str(error).splitlines()[0]}") from error
