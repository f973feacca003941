"""Databases that someone else made or damaged: every command refuses or reads them in one line.

Run: `python tests/faults/foreign_databases.py [DATABASES] [SEED]`.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import duckdb

sys.path.insert(0, str(Path(__file__).parents[1]))
from every_command import COMMANDS, Forked, arguments, fill, leaves
from faults.outcome import Outcome
from typer.main import get_command

from spangrade.evaluator.cli.app import app

_LEFT_OUT = {"serve", "lake"}  # they wait for a port or a server


def _planted(db: Path, chance: random.Random) -> str:
    """Change the objects of a database in a way that DuckDB takes; return how."""
    with duckdb.connect(str(db)) as connection:
        tables = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal ORDER BY ALL"
        ).fetchall()
        schema, table = chance.choice(tables)
        name = f'"{schema}"."{table}"'
        columns = [row[0] for row in connection.execute(f"DESCRIBE {name}").fetchall()]
        column = f'"{chance.choice(columns)}"'
        statement = chance.choice((
            f"DROP TABLE {name} CASCADE",
            f"DELETE FROM {name}",
            f"INSERT INTO {name} FROM {name}",
            f"ALTER TABLE {name} DROP COLUMN {column}",
            f"ALTER TABLE {name} RENAME {column} TO other",
            f"ALTER TABLE {name} ADD COLUMN other INTEGER",
            f"ALTER TABLE {name} ALTER {column} TYPE VARCHAR",
            f"CREATE OR REPLACE TABLE {name} AS SELECT * REPLACE (NULL AS {column}) FROM {name}",
            f"CREATE MACRO {chance.choice(('count', 'now', 'list', 'mine'))}(x) AS 42",
            f"CREATE VIEW {chance.choice(('v', 'duckdb_tables'))} AS FROM read_text('/etc/hostname')",
            f"CREATE SCHEMA {chance.choice(('other', 'pg_temp_1'))}",
        ))  # fmt: skip
        with suppress(duckdb.Error):  # what depends on the object keeps it
            connection.execute(statement)
    return statement


def _damaged(db: Path, chance: random.Random) -> str:
    """Change bytes of a database's file, or its length; return how."""
    size = db.stat().st_size
    if chance.random() < 0.3:
        length = chance.choice((0, 1, 4096, 12_288, chance.randrange(size)))
        os.truncate(db, length)
        return f"cut to {length} bytes"
    places = [chance.randrange(chance.choice((100, 12_288, size))) for _ in range(chance.choice((1, 8, 500)))]
    with db.open("r+b") as file:
        for place in places:
            file.seek(place)
            file.write(bytes([chance.randrange(256)]))
    return f"{len(places)} bytes changed, the first at {places[0]}"


def open_foreign(folder: Path, databases: int, seed: int) -> Outcome:
    """Run a command on each of many databases that were planted or damaged."""
    chance = random.Random(seed)
    problems, codes = [], Counter[int]()
    os.environ["MADE_ONCE_DIR"] = str(folder)
    original = folder / "original"
    original.mkdir()
    fill(original)
    runnable = [
        (words, command)
        for words, command in leaves(get_command(app))
        if words in COMMANDS and words[0] not in _LEFT_OUT
    ]
    with Forked() as forked:
        for number in range(databases):
            one = folder / str(number)
            shutil.copytree(original, one)
            change = chance.choice((_planted, _damaged))(one / "s.duckdb", chance)
            words, command = chance.choice(runnable)
            ended = forked.run(arguments(words, command, "1"), one)
            codes[ended.code] += 1
            if ended.code not in range(5) or "Traceback" in ended.err:
                problems.append(f"{' '.join(words)}: {change}: {ended.code}: {ended.err.strip()[-400:]}")
            shutil.rmtree(one)
    note = "exit codes: " + ", ".join(f"{count} of {code}" for code, count in sorted(codes.items()))
    return Outcome("another's database", databases, 0, 0, 0, 0, note, problems=tuple(problems))


if __name__ == "__main__":
    numbers = [int(one) for one in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        outcome = open_foreign(Path(folder), *(numbers + [100, 0][len(numbers) :]))
    print(outcome)
    sys.exit(not outcome.passed)
