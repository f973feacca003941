"""The order of the dialects, and those that other packages install."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from paths import ROOT

from spangrade.converters.spans.registry import FALLBACK, GROUP, ORDER, dialects, observe
from spangrade.tracer.errors import InputError
from spangrade.tracer.span import Span

AGENTS = "opentelemetry.instrumentation.openai_agents"
ACME = """
from spangrade.converters.spans.dialects import genai

def claims(span):
    return span.name == "acme"

def read(span, logs):
    return genai.read_attributes(span, span.attributes)._replace(name="read by acme")
"""


def span(name: str = "s", scope: str | None = None, **attributes: str) -> Span:
    dotted = {key.replace("__", "."): value for key, value in attributes.items()}
    return Span("t", "1", None, name, "INTERNAL", 1, 2, attributes=dotted, scope_name=scope)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Return a function that installs a package with an entry point for a dialect."""
    (tmp_path / "acme_dialect.py").write_text(ACME)
    monkeypatch.syspath_prepend(tmp_path)

    def installed(point: str) -> None:
        information = tmp_path / "acme-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text(f"[{GROUP}]\n{point}\n")
        dialects.cache_clear()

    yield installed
    monkeypatch.undo()
    dialects.cache_clear()


def test_every_dialect_of_ours_has_its_place_in_the_order() -> None:
    assert list(dialects()) == [*ORDER, FALLBACK]


def test_the_documentation_has_the_order() -> None:
    page = (ROOT / "docs" / "dialects.md").read_text(encoding="utf-8")
    assert f"2. spangrade's own: {', '.join(f'`{name}`' for name in ORDER)};\n3. `{FALLBACK}`" in page


@pytest.mark.parametrize(
    ("shared", "reader"),
    [
        (span(scope="pydantic-ai", openinference__span__kind="LLM"), "openinference"),
        (span(scope=AGENTS), "openai-agents"),
        (
            span(scope=AGENTS, traceloop__span__kind="tool"),
            "traceloop",
        ),
        (span(openinference__span__kind="LLM", traceloop__span__kind="tool"), "openinference"),
        (span(openinference__span__kind="LLM", gen_ai__system="gcp.vertex.agent"), "adk"),
        (span(), "genai"),
    ],
)
def test_the_first_dialect_in_the_order_reads_a_span_that_several_claim(shared: Span, reader: str) -> None:
    assert next(name for name, dialect in dialects().items() if dialect.claims(shared)) == reader


def test_another_packages_dialect_comes_before_ours(install: Callable[[str], None]) -> None:
    install("zebra = acme_dialect")
    assert list(dialects()) == ["zebra", *ORDER, FALLBACK]
    spans = [span(name, "gcp.vertex.agent", gen_ai__agent__name="shop") for name in ("acme", "invocation")]
    assert [observation.name for observation in observe(spans, {})] == ["read by acme", "shop"]


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        (
            "acme = acme_dialect:read",
            "expected a module with the functions claims(span) and read(span, logs)",
        ),
        ("adk = acme_dialect", "another dialect has the same name"),
    ],
)
def test_an_entry_point_that_is_not_a_dialect_or_takes_a_name_of_ours_is_refused(
    point: str, reason: str, install: Callable[[str], None]
) -> None:
    install(point)
    with pytest.raises(InputError) as refused:
        dialects()
    assert str(refused.value).endswith(reason)
