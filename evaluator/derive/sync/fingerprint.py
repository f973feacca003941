"""The fingerprint of the rules of derivation: where it differs, a database is derived again.

That is the source of the modules that read spans and build sessions, the version of `genai-prices`, and the
distributions that bring dialects. Computing it takes 25 ms, 20 of them to find the dialects among 150
installed distributions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable

from spangrade.converters.spans.registry import GROUP
from spangrade.tracer.base.plugins import plugins

_OURS = "spangrade"
# Folders with all that is in them, and modules, of this package.
_SOURCES = (
    "converters/spans",
    "evaluator/derive",
    "evaluator/session.py",
    "tracer/base/canonical_json.py",
    "tracer/semconv.py",
    "tracer/span.py",
)


@cache
def fingerprint() -> str:
    """Return a text that is the same as long as the same spans are derived in the same way."""
    digest = digest_of(_SOURCES)
    for release in (f"genai-prices {version('genai-prices')}", *_dialect_releases()):
        digest.update(release.encode() + b"\0")
    return digest.hexdigest()


def digest_of(sources: Iterable[str]) -> blake2b:
    """Return the digest of the source of modules of this package, and of folders with all that is in them."""
    digest = blake2b(digest_size=16)
    for name, content in _content_of(sources):
        digest.update(name.encode() + b"\0" + content + b"\0")
    return digest


def _content_of(sources: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for source in sources:
        folder, _, module = source.rpartition("/")
        place = files(f"{_OURS}.{folder.replace('/', '.')}").joinpath(module)
        yield from _content(source, place)


def _content(name: str, place: Traversable) -> Iterator[tuple[str, bytes]]:
    if place.is_dir():
        for entry in sorted(place.iterdir(), key=lambda entry: entry.name):
            yield from _content(f"{name}/{entry.name}", entry)
    elif name.endswith((".py", ".sql")):
        yield name, place.read_bytes()


def _dialect_releases() -> Iterator[str]:
    """Yield the dialects of other distributions, with the name and version of their distribution."""
    for point in (plugin.point for plugin in plugins(GROUP)):
        if point.dist is not None and not point.value.startswith(f"{_OURS}."):
            yield f"{point.name} {point.value} {point.dist.name} {point.dist.version}"
