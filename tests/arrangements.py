"""Records of many conversations at once, in any order and split, and what is derived of them.

    python tests/arrangements.py 1000000

compares six arrangements of that number of records with the conversations one after the other, prints a line
for each, and exits with 1 if a derived table, a verdict or a score differs.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

import duckdb

sys.path.insert(0, str(Path(__file__).parent / "lake"))
from spans_of_many import SECOND_NS, Record, conversation, encoded

import spangrade
from spangrade.tracer.span import Span

STAGGER_NS = SECOND_NS // 10  # between the starts of conversations of 30 s: 300 at once
QUESTIONS = 400  # for the first conversations
# Numbers of arrivals, and the name of a run: all else is compared.
OF_ARRIVAL = {"batch", "seq", "first_seq", "last_seq", "run_id"}
NOT_COMPARED = {"derived.progress"}
_TABLES = """
    SELECT schema_name || '.' || table_name, list(column_name)
    FROM duckdb_columns()
    WHERE database_name = 'one' AND (schema_name = 'derived' OR table_name IN ('verdicts', 'scores'))
    GROUP BY ALL
    ORDER BY ALL
"""


class Arrangement(NamedTuple):
    """How records arrive: sorted by their ends or shuffled, in some imports, read by some processes."""

    seed: int
    is_sorted: bool
    imports: int
    workers: int


ARRANGEMENTS = (
    Arrangement(1, is_sorted=True, imports=1, workers=1),
    Arrangement(2, is_sorted=False, imports=1, workers=2),
    Arrangement(3, is_sorted=True, imports=7, workers=1),
    Arrangement(4, is_sorted=False, imports=2, workers=1),
    Arrangement(5, is_sorted=True, imports=3, workers=2),
    Arrangement(6, is_sorted=False, imports=5, workers=1),
)

# The test suite runs these: imports of several steps, and what a receiver spools. `.ci/long` runs all above.
SHUFFLED = Arrangement(7, is_sorted=False, imports=2, workers=1)
SPOOLED = Arrangement(8, is_sorted=True, imports=3, workers=1)


def conversations(records: int) -> list[Record]:
    """Return about that number of records of conversations, one conversation after the other.

    One record in fifty is there twice, with different contents.
    """
    made: list[Record] = []
    for number in count():
        for record in conversation(number):
            moved = _moved(record, number * (60 * SECOND_NS - STAGGER_NS))
            made.append(moved)
            if len(made) % 50 == 0:
                made.append(changed(moved))
        if len(made) >= records:
            break
    return made


def _moved(record: Record, earlier_ns: int) -> Record:
    if isinstance(record, Span):
        return record._replace(start_ns=record.start_ns - earlier_ns, end_ns=record.end_ns - earlier_ns)
    return record._replace(time_ns=record.time_ns - earlier_ns)


def changed(record: Record) -> Record:
    """Return a record with the same id as another one, and other contents."""
    if isinstance(record, Span):
        attributes = {**record.attributes, "gen_ai.agent.name": "another"}
        later_ns = 0 if record.start_ns % 3 else 1_000
        return record._replace(attributes=attributes, end_ns=record.end_ns + later_ns)
    return record._replace(scope_name="another")


def lines_of(records: Sequence[Record]) -> dict[int, str]:
    """Return the OTLP JSON of records, by `id(record)`."""
    return dict(zip(map(id, records), encoded(records), strict=True))


def arranged(records: Sequence[Record], arrangement: Arrangement) -> list[list[Record]]:
    """Return the records of each import: one record in twenty comes twice, in any of them."""
    chance = random.Random(arrangement.seed)
    arriving = list(records)
    chance.shuffle(arriving)
    if arrangement.is_sorted:
        arriving.sort(key=lambda record: record.end_ns if isinstance(record, Span) else record.time_ns)
    cuts = sorted(chance.sample(range(1, len(arriving)), arrangement.imports - 1))
    imports = [arriving[first:end] for first, end in zip([0, *cuts], [*cuts, len(arriving)], strict=True)]
    for record in chance.sample(arriving, len(arriving) // 20):
        some = chance.choice(imports)
        some.insert(chance.randrange(len(some) + 1), record)
    return imports


def import_each(
    db: Path, imports: Iterable[Sequence[Record]], lines: Mapping[int, str], workers: int = 1
) -> spangrade.Database:
    """Import records as OTLP JSON, each list of them by an import of its own; `lines` are by `id(record)`."""
    database = spangrade.open(db)
    file = db.with_suffix(".jsonl")
    for records in imports:
        file.write_text("\n".join(lines[id(record)] for record in records))
        database.import_files(file, workers=workers)
    return database


def golden(folder: Path) -> Path:
    """Write golden questions for the first conversations: some pass, some fail, some have no answer."""
    questions = []
    for number in range(QUESTIONS):
        said = [f"hello, I am customer {number}", *(f"question {turn} of {number}?" for turn in (1, 2))]
        called = {"tool_name": "look_up", "input_arguments": {"customer": number + (number % 7 == 0)}}
        question = {
            "id": f"q{number}",
            "user_inputs": said if number % 13 else [*said, "one more"],
            "agents_evaluated": ["shop"],
            "reference_data": {"reference_tool_interactions": [called] * 3},
        }
        questions.append(question)
    file = folder / "golden.json"
    file.write_text(json.dumps({"golden_questions": questions}))
    return file


def differences(one: Path, other: Path) -> dict[str, tuple[int, int]]:
    """Return the derived tables, verdicts and scores that differ, with the rows that the other one lacks."""
    differing = {}
    with duckdb.connect() as connection:
        for name, file in (("one", one), ("other", other)):
            connection.execute(f"ATTACH '{file}' AS {name} (READ_ONLY)")
        for table, columns in connection.execute(_TABLES).fetchall():
            if table in NOT_COMPARED:
                continue
            names = ", ".join(f'"{column}"' for column in columns if column not in OF_ARRIVAL)
            ours, theirs = (f"SELECT {names} FROM {name}.{table}" for name in ("one", "other"))
            lacking, more = (
                connection.execute(f"SELECT count(*) FROM ({query})").fetchall()[0][0]
                for query in (f"{ours} EXCEPT ALL {theirs}", f"{theirs} EXCEPT ALL {ours}")
            )
            if lacking or more:
                differing[table] = (lacking, more)
    return differing


def main() -> int:
    """Compare arrangements of a number of records."""
    records = conversations(int(sys.argv[1]))
    lines = lines_of(records)
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        dataset = golden(folder)
        grouped = import_each(folder / "grouped.duckdb", [records], lines)
        print(f"{len(records)} records: {grouped.grade(dataset).verdicts}", flush=True)
        for arrangement in ARRANGEMENTS:
            path = folder / f"{arrangement.seed}.duckdb"
            before_s = time.process_time()
            database = import_each(path, arranged(records, arrangement), lines, arrangement.workers)
            took_s = time.process_time() - before_s
            database.grade(dataset)
            differing = differences(grouped.path, path)
            failed |= bool(differing)
            print(f"{arrangement}: {differing or 'the same'}, {took_s:.0f} s of CPU here", flush=True)
            path.unlink()
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
