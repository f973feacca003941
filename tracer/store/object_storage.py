"""DuckDB with the extensions of a lake, and files in a folder or in S3.

The extensions come from pip packages: nothing is downloaded when a program runs. The credentials of S3 are
those in the environment (`AWS_ACCESS_KEY_ID` and its like); no error shows them.

Landing files hold spans and logs on their way into a lake: `dt=2026-01-31/hh=09/NAME.spans.parquet` what
arrived in one hour (UTC), in the columns of the table of a database file, JSON as text. A file appears whole,
and a name always means the same rows: sending it again replaces it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import duckdb
import nanoarrow as na

from spangrade.tracer.base.errors import InputError, StoreError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.base.file_modes import folder_mode
from spangrade.tracer.base.installation import to_install
from spangrade.tracer.base.memory import MEMORY_LIMIT_VARIABLE
from spangrade.tracer.store.arrow import Table, joined
from spangrade.tracer.store.sql import text_literal
from spangrade.tracer.store.untrusted import MEMORY_LIMIT

REMOTE = "s3://"
# What a query raises; the second where DuckDB's message quotes bytes of a damaged file.
QUERY_ERRORS = (duckdb.Error, UnicodeDecodeError)
_EXTENSIONS = ("httpfs", "ducklake", "postgres_scanner")
_SETTINGS = (
    "python_enable_replacements = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "arrow_lossless_conversion = true",
)
_OWN_DATABASES = frozenset({"memory", "system", "temp"})
_MISREAD = re.compile(r"[*?\[\]{}\x00-\x1f\x7f]|/\.\.?/")


# Instances of DuckDB that are free: to load the extensions takes 0.4 s of CPU, mostly for their signatures.
_free: list[duckdb.DuckDBPyConnection] = []
SPANS, LOGS = ".spans.parquet", ".logs.parquet"


@contextmanager
def storage_connection(threads: int | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection without a database, which can read and write folders, S3 and lakes.

    Raises InputError if the extra `lake` is not installed.
    """
    instance = _free.pop() if _free else connect_to_storage()
    connection = instance.cursor()
    try:
        _use_credentials(connection)
        connection.execute("RESET threads" if threads is None else f"SET threads = {threads:d}")
        yield connection
        connection.execute("USE memory")
        for (name,) in connection.execute("SELECT database_name FROM duckdb_databases()").fetchall():
            if name not in _OWN_DATABASES and not name.startswith("__"):  # of a lake, which detaches it
                connection.execute(f"DETACH {name}")
        connection.close()
    except BaseException:
        instance.close()
        raise
    _free.append(instance)


def connect_to_storage() -> duckdb.DuckDBPyConnection:
    """Return a connection of a DuckDB of its own; see `storage_connection`."""
    limit = os.environ.get(MEMORY_LIMIT_VARIABLE) or MEMORY_LIMIT
    spilled = Path(tempfile.gettempdir()) / f"spangrade-{os.getpid()}.tmp"
    connection = duckdb.connect(":memory:", config={"memory_limit": limit, "temp_directory": str(spilled)})
    try:
        for name in _EXTENSIONS:
            connection.execute(f"LOAD {text_literal(str(_extension(name)))}")
        for setting in _SETTINGS:
            connection.execute(f"SET {setting}")
        # Secrets that DuckDB keeps on disk are not used; without a place for them Postgres fails.
        connection.execute(f"SET secret_directory = {text_literal(f'{spilled}.none')}")
        _use_credentials(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _extension(name: str) -> Path:
    """Return the file of an extension. Raises InputError if no package brings it, or not for this DuckDB."""
    package = find_spec(f"duckdb_extension_{name}")
    if package is None or not package.submodule_search_locations:
        raise InputError(_needs(f"duckdb-extension-{name.replace('_', '-')}"))
    (folder,) = package.submodule_search_locations
    file = Path(folder) / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    if not file.is_file():
        raise InputError(_needs(f"another DuckDB than {duckdb.__version__}"))
    return file


def _use_credentials(connection: duckdb.DuckDBPyConnection) -> None:
    """Let DuckDB use the credentials of S3 in the environment, if there are any."""
    environment = os.environ
    key, secret = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        connection.execute("DROP SECRET IF EXISTS storage")
        return
    options = {
        "KEY_ID": key,
        "SECRET": secret,
        "SESSION_TOKEN": environment.get("AWS_SESSION_TOKEN"),
        "REGION": environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1",
    }
    settings = [f"{name} {text_literal(value)}" for name, value in options.items() if value]
    if endpoint := _endpoint():
        parts = urlsplit(endpoint)
        settings += [f"ENDPOINT {text_literal(parts.netloc)}", "URL_STYLE 'path'"]
        settings.append(f"USE_SSL {parts.scheme == 'https'}")
    try:
        connection.execute(f"CREATE OR REPLACE SECRET storage (TYPE s3, {', '.join(settings)})")
    except duckdb.Error:  # its text may show the statement
        raise InputError("the credentials of S3 in the environment (AWS_…) cannot be used") from None


def _endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def storage_url(name: str, text: str) -> str:
    """Return the URL of a folder in S3, or the path of a local one, without a slash at the end.

    Raises FieldError, of the field `name`, for another kind of URL, and for characters that have a meaning in
    patterns.
    """
    if "://" in text and not text.startswith(REMOTE):
        raise FieldError(
            name, f"expected a folder or {REMOTE}BUCKET/FOLDER, found {text.partition('://')[0]}://"
        )
    if set(text) & set("*?[]{}'"):
        raise FieldError(name, f"a folder without any of * ? [ ] {{ }} ' is expected, found {text}")
    if text.startswith(REMOTE):
        return text.rstrip("/")
    return str(Path(text).resolve())


def is_inside(url: str, folder: str) -> bool:
    """Return whether a URL is a folder's own, or of something in it."""
    return f"{url}/".startswith(f"{folder}/")


def make_folder(url: str) -> None:
    """Create a local folder with its parents; S3 has none."""
    if not url.startswith(REMOTE):
        Path(url).mkdir(mode=folder_mode(), parents=True, exist_ok=True)


def files_in(connection: duckdb.DuckDBPyConnection, folder: str) -> list[str]:
    """Return the URLs of the Parquet files in a folder and in those in it, by name.

    Raises StoreError for a name that would be read as a pattern, as options of the storage or as another
    folder: after a `?` it could name a server that is sent the credentials.
    """
    rows = connection.execute(
        "SELECT file FROM glob($pattern) ORDER BY file", {"pattern": f"{folder}/**/*.parquet"}
    ).fetchall()
    files = [str(file) for (file,) in rows]
    for file in files:
        if _MISREAD.search(file, len(folder)) or not is_inside(file, folder):
            raise StoreError(
                f"{folder}: expected files without * ? [ ] {{ }} or .. in their names, found {file[:200]!r}"
            )
    return files


def copy_to(connection: duckdb.DuckDBPyConnection, query: str, url: str, options: str = "") -> None:
    """Write the rows of a query to a Parquet file.

    A file in S3 appears when it is whole. Raises StoreError if it cannot be written.
    """
    more = f", {options}" if options else ""
    try:
        connection.execute(f"COPY ({query}) TO {text_literal(url)} (FORMAT parquet, COMPRESSION zstd{more})")
    except (duckdb.IOException, duckdb.HTTPException) as error:
        raise StoreError(f"{url}: cannot write: {first_line(error)}") from error


def remove_files(urls: Sequence[str]) -> None:
    """Remove files; those that are not there are none's fault. Raises StoreError if S3 refuses."""
    for url in urls:
        if not url.startswith(REMOTE):
            Path(url).unlink(missing_ok=True)
    by_bucket: dict[str, list[str]] = {}
    for url in urls:
        if url.startswith(REMOTE):
            bucket, _, key = url.removeprefix(REMOTE).partition("/")
            by_bucket.setdefault(bucket, []).append(key)
    for bucket, keys in by_bucket.items():
        _remove_objects(bucket, keys)


def _remove_objects(bucket: str, keys: Sequence[str]) -> None:
    with _objects(bucket, "remove") as store:
        import obstore

        obstore.delete(store, list(keys))


class StoredFile(NamedTuple):
    """The size of a file in bytes, and when it was written, in ns since the epoch by the storage's clock."""

    size: int
    modified_ns: int


def stored_files(folder: str) -> dict[str, StoredFile]:
    """Return the files in a folder and in those in it, by URL."""
    files = {}
    if not folder.startswith(REMOTE):
        for path in Path(folder).rglob("*"):
            with suppress(FileNotFoundError):  # removed meanwhile
                if not path.is_dir():
                    stat = path.stat()
                    files[str(path)] = StoredFile(stat.st_size, stat.st_mtime_ns)
        return files
    bucket, _, prefix = folder.removeprefix(REMOTE).partition("/")
    with _objects(bucket, "list") as store:
        import obstore

        for listed in obstore.list(store, f"{prefix}/" if prefix else None):
            for one in listed:
                modified_ns = int(one["last_modified"].timestamp()) * 10**9
                files[f"{REMOTE}{bucket}/{one['path']}"] = StoredFile(one["size"], modified_ns)
    return files


@contextmanager
def _objects(bucket: str, what: str) -> Iterator[Any]:
    """Give the objects of a bucket. Raises StoreError if S3 refuses."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import S3Store
    except ModuleNotFoundError as error:
        raise InputError(_needs(error.name)) from None
    endpoint = _endpoint()
    options = {"endpoint": endpoint, "virtual_hosted_style_request": False} if endpoint else {}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    try:
        yield S3Store(
            bucket,
            region=region,
            client_options={"allow_http": bool(endpoint and endpoint.startswith("http:"))},
            **options,
        )
    except BaseError as error:
        raise StoreError(f"{REMOTE}{bucket}: cannot {what} objects: {first_line(error)}") from error


def remove_empty_folders(folder: str) -> None:
    """Remove a local folder and those in it as far as they are empty."""
    if folder.startswith(REMOTE) or not Path(folder).is_dir():
        return
    inner = sorted((path for path in Path(folder).rglob("*") if path.is_dir()), reverse=True)
    for path in (*inner, Path(folder)):
        try:
            path.rmdir()
        except OSError:
            continue


def list_literal(texts: Iterable[str]) -> str:
    """Return texts as a list in SQL."""
    return f"[{', '.join(map(text_literal, texts))}]"


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    if isinstance(error, UnicodeDecodeError):
        return "a file is damaged: DuckDB's message about it is not text"
    return (str(error).splitlines() or [type(error).__name__])[0]


def _needs(what: object) -> str:
    return f"a lake needs {what}: {to_install('lake')}"


def write_landing(
    connection: duckdb.DuckDBPyConnection,
    landing: str,
    name: str,
    time_ns: int,
    tables: Mapping[Table, Sequence[na.Array]],
) -> list[str]:
    """Write rows that arrived at a time as landing files of a name; return their URLs.

    Raises StoreError if one cannot be written.
    """
    hour = datetime.fromtimestamp(time_ns // 10**9, UTC)
    folder = f"{landing}/dt={hour:%Y-%m-%d}/hh={hour:%H}"
    make_folder(folder)
    urls = []
    for table, parts in tables.items():
        if not parts:
            continue
        url = f"{folder}/{name}{SPANS if table == 'spans' else LOGS}"
        connection.register("incoming", joined(parts))
        try:
            write_whole(connection, "FROM incoming", url)
        finally:
            connection.unregister("incoming")
        urls.append(url)
    return urls


def write_whole(connection: duckdb.DuckDBPyConnection, query: str, url: str) -> None:
    """Write the rows of a query to a Parquet file, which appears whole or replaces the one of its name."""
    if url.startswith(REMOTE):
        copy_to(connection, query, url)
        return
    growing = Path(f"{url}.growing")  # not among the files that an update looks for
    copy_to(connection, query, str(growing))
    with growing.open("rb+") as file:
        os.fsync(file.fileno())
    growing.replace(url)
