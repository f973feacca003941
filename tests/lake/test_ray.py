"""The tasks on Ray, with data in S3: the same rows, also if workers are killed; a token is required."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import grpc
import pytest
from dying import killing
from same_tables import differences
from servers import Postgres, s3
from spans_of_many import deliveries, land, single_machine

from spangrade import InputError, SpangradeError
from spangrade.evaluator.apps.lake.catalog import lake_at
from spangrade.evaluator.apps.lake.compact import compact
from spangrade.evaluator.apps.lake.delete import delete_from_lake
from spangrade.evaluator.apps.lake.engine import Engine
from spangrade.evaluator.apps.lake.executors import executor, on_ray
from spangrade.evaluator.apps.lake.job import Sizes, Updated, update_lake
from spangrade.evaluator.derive.sync.workers import InOrder, workers_in_order
from spangrade.evaluator.maintenance.delete import delete
from spangrade.tracer.store.object_storage import files_in, storage_connection

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray")
SIZES = Sizes(part=150, slice=100)


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket in an S3 of its own, whose credentials are in the environment."""
    with pytest.MonkeyPatch.context() as patch, s3() as url:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "made-up",
            "AWS_SECRET_ACCESS_KEY": "made-up-too",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
        }.items():
            patch.setenv(name, value)
        import boto3  # moto needs it, too

        boto3.client("s3", endpoint_url=url, region_name="us-east-1").create_bucket(Bucket="spans")
        yield "s3://spans"


@pytest.fixture(scope="module")
def on_two_workers(bucket: str) -> Iterator[InOrder]:
    """Ray with two workers, which know the bucket's credentials and the module that kills them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        with on_ray(2) as in_order:
            yield in_order


@pytest.mark.exhaustive
@pytest.mark.parametrize("task", ["scan", "gather", "split", "derive"])
def test_a_worker_that_is_killed_changes_nothing(
    task: str, catalogs: Postgres, bucket: str, on_two_workers: InOrder, tmp_path: Path
) -> None:
    landed = deliveries(30)
    landing = f"{bucket}/{task}/landing"
    lake = lake_at(catalogs.new_database(), f"{bucket}/{task}/lake")
    land(landing, landed)
    killed = killing(on_two_workers, task, tmp_path / "killed")
    update_lake(lake, landing, killed, sizes=SIZES)
    assert (tmp_path / "killed").exists()
    assert differences(lake, single_machine(tmp_path / "one.duckdb", landed))[1] == {}
    assert update_lake(lake, landing, map) == Updated(0)
    with storage_connection() as connection:
        assert files_in(connection, f"{bucket}/{task}/lake/stage") == []  # objects are removed


@pytest.mark.exhaustive
def test_files_in_s3_are_merged_and_deleted(catalogs: Postgres, bucket: str, tmp_path: Path) -> None:
    landed = deliveries(12)
    landing = f"{bucket}/upkeep/landing"
    lake = lake_at(catalogs.new_database(), f"{bucket}/upkeep/lake")
    land(landing, landed)
    update_lake(lake, landing, map, sizes=SIZES)
    db = single_machine(tmp_path / "one.duckdb", landed)
    compacted = compact(lake, map, keep_s=0)
    assert (compacted.removed > 0, compacted.bytes_removed > 0) == (True, True)
    assert delete_from_lake(lake, map, landing, user="user-3")[:3] == delete(db, user="user-3")[:3]
    assert differences(lake, db)[1] == {}
    spans = f"read_parquet('{landing}/**/*.spans.parquet', union_by_name = true)"
    with storage_connection() as connection:
        query = f"SELECT count(*) FILTER (contains(attributes, 'user-3')), count(*) > 0 FROM {spans}"
        assert connection.execute(query).fetchall() == [(0, True)]


@pytest.mark.exhaustive
def test_a_client_without_the_token_is_refused(on_two_workers: InOrder) -> None:
    import ray  # not before `on_ray`: it reads its environment when it is imported

    address = ray.get_runtime_context().gcs_address
    answers = []
    for token in (None, "0" * 64, os.environ["RAY_AUTH_TOKEN"]):
        metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        with grpc.insecure_channel(address) as channel:
            call = channel.unary_unary("/ray.rpc.NodeInfoGcsService/CheckAlive")
            try:
                call(b"", metadata=metadata, timeout=60)
            except grpc.RpcError as error:
                answers.append(error.code())
            else:
                answers.append(grpc.StatusCode.OK)
    refused = grpc.StatusCode.UNAUTHENTICATED
    assert answers == [refused, refused, grpc.StatusCode.OK]


def test_ray_without_its_token_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(InputError, match=r"^RAY_AUTH_MODE is 'disabled': expected token"), on_ray(1):
        pass


def test_an_address_is_for_ray() -> None:
    with pytest.raises(InputError, match=r"^ray_address: it is for the engine ray$"):
        executor(Engine.LOCAL, 1, "ray-head:6379")


@pytest.mark.exhaustive
def test_an_error_in_a_task_is_one_line(on_two_workers: InOrder) -> None:
    with pytest.raises(SpangradeError, match=r"^a task failed: ValueError: invalid literal.*$"):
        list(on_two_workers(int, ["no number"]))


@pytest.mark.exhaustive
def test_a_killed_process_of_this_machine_is_run_again_by_hand(catalogs: Postgres, tmp_path: Path) -> None:
    landed = deliveries(12)
    land(str(tmp_path / "landing"), landed)
    lake = lake_at(catalogs.new_database(), str(tmp_path / "lake"))
    with (
        pytest.raises(SpangradeError, match=r"^a worker process ended unexpectedly"),
        workers_in_order(2) as in_order,
    ):
        update_lake(
            lake, str(tmp_path / "landing"), killing(in_order, "derive", tmp_path / "killed"), sizes=SIZES
        )
    with workers_in_order(2) as in_order:
        update_lake(lake, str(tmp_path / "landing"), in_order, sizes=SIZES)
    assert differences(lake, single_machine(tmp_path / "one.duckdb", landed))[1] == {}
