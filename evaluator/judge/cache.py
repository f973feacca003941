"""Verdicts kept in a DuckDB file, shared by processes: the same question is not paid for twice."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb

from spangrade.evaluator.judge.protocol import Verdict
from spangrade.tracer.errors import StoreError, StoreLockedError

CACHE_VARIABLE = "SPANGRADE_JUDGE_CACHE"
_LOCK_PATIENCE_S = 30.0
_POLL_S = 0.1

_COLUMNS = ("passed", "score", "reason", "input_tokens", "output_tokens", "cost_usd")
_GET = f"select {', '.join(_COLUMNS)} from verdicts where key = ?"  # noqa: S608 (our own column names)
_PUT = f"""
insert into verdicts (key, judge, prompt_version, question, {", ".join(_COLUMNS)})
values ($key, $judge, $prompt_version, $question, {", ".join("$" + column for column in _COLUMNS)})
on conflict do nothing
"""  # noqa: S608
_CLAIM = """
insert into claims values ($key, $until)
on conflict (key) do update set claimed_until = excluded.claimed_until where claims.claimed_until < $now
returning key
"""
_RENEW = "update claims set claimed_until = ? where key = ?"
_RELEASE = "delete from claims where key = ?"

# DuckDB refuses a file that another thread is opening or closing.
_one_in_this_process = threading.Lock()

_Work = Callable[[duckdb.DuckDBPyConnection], Any]


def default_cache_path() -> Path:
    """Return `$SPANGRADE_JUDGE_CACHE`, else `.spangrade/judge_cache.duckdb` under the current directory."""
    return Path(os.environ.get(CACHE_VARIABLE) or Path(".spangrade", "judge_cache.duckdb"))


class VerdictCache:
    """A file of verdicts, created when the first one is asked for. Belongs to one event loop.

    Two processes cannot hold a DuckDB file open at once, so each visit opens it, does all that waits, and
    closes it (20 ms on DuckDB 2.0): what is asked for meanwhile is done together at the next visit.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._door = asyncio.Lock()
        self._works: list[_Work] = []
        self._next_visit: asyncio.Task[list[Any]] | None = None

    async def get_or_claim(self, key: str, lease_s: float) -> Verdict | None:
        """Return the verdict, or None once the caller holds the claim to ask, for `lease_s` seconds.

        Waits while another process holds the claim. The caller renews it and ends it by `put` or `release`.

        Raises:
            StoreError: the file cannot be opened, read or written.
        """

        def work(connection: duckdb.DuckDBPyConnection) -> Verdict | bool:
            row = connection.execute(_GET, [key]).fetchone()
            if row:
                return replace(Verdict(*row), cached=True)
            now = time.time()
            claim = {"key": key, "until": now + lease_s, "now": now}
            return connection.execute(_CLAIM, claim).fetchone() is not None

        while True:
            found = await self._visit(work)
            if isinstance(found, Verdict):
                return found
            if found:
                return None
            await asyncio.sleep(_POLL_S)

    async def put(self, key: str, verdict: Verdict, judge: str, prompt_version: str, question: str) -> None:
        """Keep a verdict and end the claim; returns when it is written. `question` is JSON text."""
        row = {"key": key, "judge": judge, "prompt_version": prompt_version, "question": question}
        row |= {column: getattr(verdict, column) for column in _COLUMNS}
        await self._execute((_PUT, row), (_RELEASE, [key]))

    async def renew(self, key: str, lease_s: float) -> None:
        """Hold a claim for `lease_s` seconds from now."""
        await self._execute((_RENEW, [time.time() + lease_s, key]))

    async def release(self, key: str) -> None:
        """End a claim without a verdict, so that the next may ask."""
        await self._execute((_RELEASE, [key]))

    async def _execute(self, *statements: tuple[str, Any]) -> None:
        def work(connection: duckdb.DuckDBPyConnection) -> None:
            for statement, parameters in statements:
                connection.execute(statement, parameters)

        await self._visit(work)

    async def _visit(self, work: _Work) -> Any:
        if self._next_visit is None:
            self._next_visit = asyncio.create_task(self._visit_with_all())
        visit, position = self._next_visit, len(self._works)
        self._works.append(work)
        return (await asyncio.shield(visit))[position]

    async def _visit_with_all(self) -> list[Any]:
        async with self._door:  # work gathers until the visit before has ended
            works, self._works, self._next_visit = self._works, [], None
            return await asyncio.to_thread(self._do, works)

    def _do(self, works: list[_Work]) -> list[Any]:
        deadline = time.monotonic() + _LOCK_PATIENCE_S
        while True:
            try:
                with _one_in_this_process:
                    return self._do_once(works)
            except (duckdb.Error, OSError) as error:
                if not (isinstance(error, duckdb.IOException) and "Could not set lock" in str(error)):
                    raise StoreError(f"judge cache {self.path}: {error}") from error
                if time.monotonic() > deadline:
                    raise StoreLockedError(
                        f"judge cache {self.path}: in use by another process for {_LOCK_PATIENCE_S:g} s; "
                        f"end that process, or set {CACHE_VARIABLE} to another file"
                    ) from error
            time.sleep(random.uniform(0.002, 0.03))  # noqa: S311 (to not meet the same process again)

    def _do_once(self, works: list[_Work]) -> list[Any]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # The storage version that every supported DuckDB reads and writes; few rows need no threads.
        config: dict[str, Any] = {"storage_compatibility_version": "v1.5.0", "threads": 1}
        with closing(duckdb.connect(self.path, config=config)) as connection:
            connection.begin()
            connection.execute(resources.files(__package__).joinpath("cache.sql").read_text())
            results = [work(connection) for work in works]
            connection.commit()
        return results
