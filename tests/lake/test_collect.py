"""Receivers write landing files: each segment once, under a name that a crash does not change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import requests
from command_line import Spangrade
from receiving import receiver, request
from same_tables import differences
from spans_of_many import deliveries

from spangrade import open as open_database
from spangrade.evaluator.apps.lake.catalog import Lake, attached
from spangrade.evaluator.apps.lake.job import update_lake
from spangrade.evaluator.derive.settings import set_session_from
from spangrade.tracer.receiver.counters import Counters
from spangrade.tracer.receiver.loader import Lander
from spangrade.tracer.receiver.queue import SpoolQueue
from spangrade.tracer.store import Store, spool
from spangrade.tracer.store.arrow import rows_of


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def land_the_spool(db: Path, landing: Path) -> None:
    queue = SpoolQueue(db, 2**30)
    lander = Lander(db, queue, Counters(), str(landing))
    lander.start()
    queue.close()
    assert lander.stop(60)


def test_two_receivers_fill_one_landing_folder_that_an_update_reads(lake: Lake, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    for number in range(2):
        db = tmp_path / f"receiver{number}.duckdb"
        with receiver(db, "--landing", str(landing), "--segment-seconds", "0.2") as running:
            body = request(100 * number, 10).SerializeToString()
            headers = {"Content-Type": "application/x-protobuf"}
            answer = requests.post(f"{running.http}/v1/traces", data=body, headers=headers, timeout=60)
            assert answer.status_code == 200
            assert running.stop() == 0
        assert not db.exists()
        assert spool.waiting(db) == []
    assert all(name.startswith("dt=") for name in files_below(landing))
    assert update_lake(lake, str(landing), map).spans == 20
    with attached(lake) as store:
        assert store.query("SELECT count(*) FROM landed") == [(len(files_below(landing)),)]


def test_a_segment_that_is_sent_again_after_a_crash_has_the_same_name_and_rows(tmp_path: Path) -> None:
    db, landing = tmp_path / "receiver.duckdb", tmp_path / "landing"
    segment = spool.write(db, rows_of(deliveries(6)[0]))
    kept = shutil.copy(segment, tmp_path / "kept")
    land_the_spool(db, landing)
    sent = files_below(landing)
    assert len(sent) == 1
    assert not segment.exists()
    shutil.copy(kept, segment)  # the crash came before it was removed
    land_the_spool(db, landing)
    assert files_below(landing) == sent


def test_a_segment_that_cannot_be_sent_stays_in_the_spool(tmp_path: Path) -> None:
    db, landing = tmp_path / "receiver.duckdb", tmp_path / "landing"
    segment = spool.write(db, rows_of(deliveries(6)[0]))
    landing.write_text("not a folder")
    queue = SpoolQueue(db, 2**30)
    lander = Lander(db, queue, Counters(), str(landing))
    lander.start()
    queue.close()
    assert not lander.stop(60)
    assert segment.exists()


@pytest.mark.parametrize("folder", ["gs://bucket/landing", "http://host/landing"])
def test_a_landing_folder_elsewhere_is_refused(folder: str, spangrade: Spangrade) -> None:
    refused = spangrade("serve", "--only", "receive", "--landing", folder)
    scheme = folder.partition("/")[0]
    message = f"spangrade: --lake: expected a folder or s3://BUCKET/FOLDER, found {scheme}//"
    assert (refused.code, refused.out, refused.err) == (2, [], [message])


def test_what_a_receiver_redacts_and_an_attribute_as_session_come_to_the_files_rows(
    lake: Lake, tmp_path: Path
) -> None:
    landing, named = tmp_path / "landing", ["shop.session"]
    text = "write to ada@example.org"
    body = request(0, 20, **{"shop.session": "s-1", "gen_ai.operation.name": "chat", "note": text})
    headers = {"Content-Type": "application/x-protobuf"}
    for options in (("--landing", str(landing)), ()):
        db = tmp_path / f"{len(options)}.duckdb"
        with receiver(db, "--redact", "mask", *options) as running:
            answer = requests.post(
                f"{running.http}/v1/traces", data=body.SerializeToString(), headers=headers, timeout=60
            )
            assert answer.status_code == 200
            assert running.stop() == 0
    with Store.open(db) as store:
        set_session_from(store, named)
    assert open_database(db).derive() == 1
    update_lake(lake, str(landing), map, session_from=named)
    rows, differing = differences(lake, db)
    assert (rows["spans"], rows["sessions"], differing) == (20, 1, {})
    with attached(lake) as store:
        assert store.query("SELECT count(*) FROM spans WHERE contains(attributes, 'ada@')") == [(0,)]
        assert store.query("SELECT count(*) FROM spans WHERE contains(attributes, 'write to')") == [(20,)]
