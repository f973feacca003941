"""The order of the dialects, and those that other packages install."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from builders import observed_fields

from spangrade import InputError
from spangrade.converters.spans.registry import FALLBACK, dialects, error_line, own_names
from spangrade.tracer.span import Span

AGENTS = "opentelemetry.instrumentation.openai_agents"
ACME = """
from spangrade.converters.spans.dialect import Dialect
from spangrade.converters.spans.dialects import genai
from spangrade.converters.spans.observation import ToolUse

def read(span, logs):
    return ToolUse(*genai.structure(span), name="read by acme")

DIALECT = Dialect("acme", read, only_if=lambda span: span.name == "acme")
"""
FAILS = """
def claims(span):
    raise OSError("asked")

def read(span, logs): ...
"""
DECLARED = """
from spangrade.converters.spans.dialect import Dialect, Signs
DIALECT = Dialect("acme", read, {signs}, only_if=claims)
"""


def span(name: str = "s", scope: str | None = None, **attributes: str) -> Span:
    dotted = {key.replace("__", "."): value for key, value in attributes.items()}
    return Span("t", "1", None, name, "INTERNAL", 1, 2, attributes=dotted, scope_name=scope)


def test_every_dialect_of_ours_comes_before_those_that_it_names_and_the_fallback_last() -> None:
    order = list(dialects())
    assert (set(order), order[-1]) == (own_names(), FALLBACK)
    for name, dialect in dialects().items():
        assert dialect.name == name
        assert [later for later in dialect.before if order.index(later) <= order.index(name)] == []


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


def test_every_dialect_but_the_fallback_claims_only_spans_that_have_one_of_its_signs() -> None:
    plain = span(request_data="{}")
    assert [name for name, dialect in dialects().items() if dialect.claims(plain)] == [FALLBACK]
    assert [name for name, dialect in dialects().items() if dialect.signs is None] == [FALLBACK]


@pytest.mark.parametrize(
    "signs",
    [
        'scopes=frozenset({"acme"})',
        'scope_prefixes=("ac",)',
        'attributes=frozenset({"acme.kind"})',
        'name_prefixes=("acme.",)',
    ],
)
def test_a_dialect_with_signs_is_only_asked_about_spans_that_have_one(
    signs: str, install_dialect: Callable[[str, str], None]
) -> None:
    install_dialect(
        "acme = acme_dialect",
        FAILS + DECLARED.format(signs=f"Signs({signs})"),
    )
    with_it = Span("t", "1", None, "acme.a", "INTERNAL", 1, 2, attributes={"acme.kind": 1}, scope_name="acme")
    without = [
        span(),
        span("acme", scope="beacme", kind="acme.kind"),
        span(scope="spangrade.tracer", gen_ai__agent__name="a"),
    ]
    assert [read.unreadable for read in observed_fields([with_it, *without])] == [
        ("acme", "OSError: asked"),
        None,
        None,
        None,
    ]


def test_signs_of_another_type_are_refused(install_dialect: Callable[[str, str], None]) -> None:
    install_dialect("acme = acme_dialect", FAILS + DECLARED.format(signs="['acme']"))
    with pytest.raises(InputError, match=r"expected its signs to be a Signs of spangrade\.converters"):
        dialects()


def test_another_packages_dialect_comes_before_ours(install_dialect: Callable[[str, str], None]) -> None:
    install_dialect("zebra = acme_dialect", ACME)
    assert next(iter(dialects())) == "zebra"
    spans = [span(name, "gcp.vertex.agent", gen_ai__agent__name="shop") for name in ("acme", "invocation")]
    assert [observation.name for observation in observed_fields(spans)] == ["read by acme", "shop"]


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        (
            "acme = acme_dialect:read",
            "expected a module with DIALECT, a Dialect of spangrade.converters.spans.dialect",
        ),
        ("adk = acme_dialect", "another dialect has the same name"),
    ],
)
def test_an_entry_point_that_is_not_a_dialect_or_takes_a_name_of_ours_is_refused(
    point: str, reason: str, install_dialect: Callable[[str, str], None]
) -> None:
    install_dialect(point, ACME)
    with pytest.raises(InputError) as refused:
        dialects()
    assert str(refused.value).endswith(reason)


RETURNS = """
from spangrade.converters.spans.observation import *
from spangrade.converters.spans.observation import changed

def claims(span):
    return True

def read(span, logs):
    ref = SpanRef(span.trace_id, span.span_id, None, span.start_ns, span.end_ns)
    tool, call = ToolUse(ref), ModelCall(ref)
    return {returned}
"""


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("def claims(span):\n    return span['x']\ndef read(span, logs): ...", "TypeError: tuple indices"),
        ("def claims(span):\n    return True\ndef read(span, logs): raise OSError('a\\nb')", "OSError: a b"),
        ("def claims(span):\n    exit(3)\ndef read(span, logs): ...", "SystemExit: 3"),
        (RETURNS.format(returned="None"), "TypeError: expected an Observation, got a value"),
        (RETURNS.format(returned="ToolUse(ref._replace(span_id='2'))"), "ValueError: the observation has"),
        (RETURNS.format(returned="changed(tool, kind='llm')"), "TypeError: a ToolUse has no kind"),
        (RETURNS.format(returned="changed(tool, input_tokens=1)"), "TypeError: a ToolUse has no input"),
        (RETURNS.format(returned="tool._replace(name=['a'])"), "TypeError: name is of type list"),
        (RETURNS.format(returned="changed(call, input_tokens=True)"), "TypeError: input_tokens is of type"),
        (RETURNS.format(returned="changed(call, input_tokens=-1)"), "ValueError: input_tokens is out of"),
        (RETURNS.format(returned="changed(call, input_tokens=2**63)"), "ValueError: input_tokens is out of"),
        (RETURNS.format(returned="ToolUse(ref._replace(end_ns=2**63))"), "ValueError: end_ns is out of"),
        (RETURNS.format(returned="tool._replace(arguments='{')"), "JSONDecodeError: "),
        (RETURNS.format(returned="changed(call, tool_calls=(MessageCall('a', 1, None),))"), "TypeError: "),
        (RETURNS.format(returned="call._replace(digests=Digests(1, 2, 3))"), "TypeError: expected a record"),
        (RETURNS.format(returned="changed(tool, state=(('x', {}),))"), "TypeError: expected state"),
        (RETURNS.format(returned="tool._replace(session=SessionContext(tags=(['a'],)))"), "TypeError: "),
        (RETURNS.format(returned="tool._replace(call_id='\\ud800')"), "UnicodeEncodeError: "),
    ],
)  # fmt: skip
def test_a_span_that_a_dialect_fails_to_read_holds_the_tree_together_and_has_the_reason(
    source: str, error: str, install_dialect: Callable[[str, str], None]
) -> None:
    install_dialect("acme = acme_dialect", source + DECLARED.format(signs=None))
    (observation,) = observed_fields([span()])
    assert observation.kind == "other"
    assert observation.unreadable is not None
    assert observation.unreadable[0] == "acme"
    assert observation.unreadable[1].startswith(error)


def test_an_error_is_one_short_line() -> None:
    class SilentError(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert error_line(KeyError()) == "KeyError"
    assert error_line(ValueError("one\n\n two")) == "ValueError: one two"
    assert len(error_line(ValueError("x" * 10_000))) == 300
    assert error_line(SilentError()) == "SilentError: <SilentError>"
