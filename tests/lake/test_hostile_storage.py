"""Object storage that lies, and names of objects that mean something else: an update is one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from command_line import Done, Spangrade, run
from hostile_storage import Answer, HostileS3, Request, hostile_s3
from servers import Postgres, s3
from spans_of_many import deliveries, land

LANDING = "s3://spans/landing"
SECRETS = {"AWS_SECRET_ACCESS_KEY": "the-secret-key", "AWS_SESSION_TOKEN": "the-secret-token"}
CHANGING = {"etag", "last-modified"}
Lie = Callable[[Request, Answer], Answer]


@pytest.fixture(scope="module")
def storage() -> Iterator[HostileS3]:
    """A bucket with landing files, whose credentials are in the environment."""
    with pytest.MonkeyPatch.context() as patch, s3() as behind, hostile_s3(behind) as made:
        environment = {"AWS_ACCESS_KEY_ID": "me", "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": made.url}
        for name, value in {**environment, **SECRETS}.items():
            patch.setenv(name, value)
        import boto3  # moto needs it, too

        client = boto3.client("s3", endpoint_url=behind, region_name="us-east-1")
        client.create_bucket(Bucket="spans")
        land(LANDING, deliveries(2, files=2))
        yield made


def update(catalog: str, storage: HostileS3, lie: Lie = lambda _, true: true) -> Done:
    data = f"s3://spans/{catalog.partition('dbname=')[2].split()[0]}"
    storage.requests.clear()
    storage.lie = lie
    return run("lake", "update", "--lake", catalog, "--landing", LANDING, "--data", data)


def is_listing(request: Request) -> bool:
    return "list-type=2" in request.target and "landing" in request.target


def is_object(request: Request) -> bool:
    return request.method == "GET" and "/landing/" in request.target and "list-type" not in request.target


def with_key(key: str) -> Lie:
    """Return the lie that one more object is listed, before the others."""

    def lie(request: Request, true: Answer) -> Answer:
        if not is_listing(request):
            return true
        before, contents, after = true.body.partition(b"<Contents>")
        first, end, _ = after.partition(b"</Contents>")
        kept, _, rest = first.partition(b"<Key>")
        more = kept + b"<Key>" + key.encode() + b"</Key>" + rest.partition(b"</Key>")[2]
        return true._replace(body=before + contents + more + end + contents + after)

    return lie


@pytest.mark.parametrize(
    "key",
    [
        "a*.spans.parquet",
        "[a-z].spans.parquet",
        "a?s3_endpoint=ENDPOINT/stolen.spans.parquet",
        "../../other/x.spans.parquet",
        "a%0Ab.spans.parquet",
        "a%00b.spans.parquet",
        f"{'x' * 1000}.spans.parquet",
    ],
)
@pytest.mark.short_form("key", 3)
def test_a_name_that_means_something_else_is_one_line(
    key: str, catalogs: Postgres, storage: HostileS3
) -> None:
    key = key.replace("ENDPOINT", storage.url.removeprefix("http://"))
    done = update(catalogs.new_database(), storage, with_key(f"landing/{key}"))
    assert (done.code, done.out, len(done.err)) == (2, [], 1)
    assert done.err[0].isprintable()
    assert [one.target for one in storage.requests if "stolen" in one.target] == []


def echo(status: int) -> Callable[[Request], Answer]:
    """Return what answers with all that the request sent, as a debugging server would."""
    return lambda request: Answer(status, f"<Error><Message>{request.headers}</Message></Error>".encode())


LIES: dict[str, Lie] = {
    "listing refused": lambda request, true: echo(403)(request) if is_listing(request) else true,
    "gone": lambda request, true: echo(404)(request) if is_object(request) else true,
    "broken": lambda request, true: echo(500)(request) if is_object(request) else true,
    "cut": lambda request, true: (
        true._replace(body=true.body[:50], length=len(true.body)) if is_object(request) else true
    ),
    "longer": lambda request, true: true._replace(body=true.body * 100) if is_object(request) else true,
    "other bytes": lambda request, true: (
        true._replace(body=b"\xff" * len(true.body)) if is_object(request) else true
    ),
    "not writable": lambda request, true: echo(500)(request) if request.method in {"PUT", "POST"} else true,
}


@pytest.mark.parametrize("name", LIES)
@pytest.mark.short_form("name", 3)
def test_an_answer_that_is_wrong_is_one_line_without_credentials(
    name: str, catalogs: Postgres, storage: HostileS3
) -> None:
    done = update(catalogs.new_database(), storage, LIES[name])
    assert (done.code, done.out, len(done.err)) == (2, [], 1)
    assert not [secret for secret in SECRETS.values() if secret in done.err[0]]


@pytest.mark.exhaustive
def test_an_update_whose_objects_changed_while_it_read_them_is_done_by_the_next(
    catalogs: Postgres, storage: HostileS3
) -> None:
    read = 0

    def replaced(request: Request, true: Answer) -> Answer:
        nonlocal read
        if "/landing/" not in request.target or "list-type" in request.target:
            return true
        read += request.method == "GET"
        if read < 2:
            return true
        headers = tuple((name, value) for name, value in true.headers if name.lower() not in CHANGING)
        headers += (("ETag", '"another"'), ("Last-Modified", "Fri, 01 Jan 2027 00:00:00 GMT"))
        return true._replace(body=b"\xff" * len(true.body), headers=headers)

    catalog = catalogs.new_database()
    refused = update(catalog, storage, replaced)
    assert (refused.code, len(refused.err)) == (2, 1)
    assert update(catalog, storage).out == ["2 files: 15 new spans, 0 new logs, 2 sessions derived"]
    counted = run("sql", "SELECT count(*) AS n FROM spans", "--db", catalog, "--format", "json")
    assert (counted.code, json.loads("".join(counted.out))) == (0, [{"n": 15}])


@pytest.mark.exhaustive
def test_upkeep_removes_no_object_that_is_not_of_the_lake(
    catalogs: Postgres, storage: HostileS3, spangrade: Spangrade
) -> None:
    catalog = catalogs.new_database()
    assert update(catalog, storage).code == 0
    catalogs.execute(
        catalog,
        "INSERT INTO ducklake_files_scheduled_for_deletion "
        f"VALUES (99999, '{LANDING}/precious.parquet', false, now() - interval '10 days')",
    )
    storage.requests.clear()
    done = spangrade("lake", "compact", "--lake", catalog)
    assert (done.code, len(done.err)) == (2, 1)
    assert f"names '{LANDING}/precious.parquet' for removal" in done.err[0]
    assert [one.method for one in storage.requests if one.method == "DELETE" or "?delete" in one.target] == []
