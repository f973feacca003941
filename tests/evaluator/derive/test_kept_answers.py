"""What genai-prices answered is kept: the same price without the library, and never another one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import genai_prices
import pytest
from builders import reading
from genai_prices.data_snapshot import DataSnapshot, get_snapshot, set_custom_snapshot
from hypothesis import given
from hypothesis import strategies as st

from spangrade.converters.spans.observation import ModelCall
from spangrade.evaluator.derive import cost
from spangrade.evaluator.derive.cost import KeptAnswers

MODELS = [(provider.id, model.id) for provider in get_snapshot().providers for model in provider.models]
TOKENS = st.integers(0, 2_000_000)


def call(names: tuple[str, str], at_s: int, given_tokens: int, cached: int, answered: int) -> ModelCall:
    made = reading(
        "llm", "ask", None, (at_s, at_s + 1), model=names[1], provider=names[0],
        input_tokens=given_tokens, cached_input_tokens=cached, output_tokens=answered,
    ).observation  # fmt: skip
    assert isinstance(made, ModelCall)
    return made


def begin(monkeypatch: pytest.MonkeyPatch, answers: KeptAnswers) -> None:
    """Forget what this process knows, as a new process does that has these answers."""
    monkeypatch.setattr(cost, "kept_answers", lambda: answers)
    cost._priced_model.cache_clear()
    cost.context_window.cache_clear()


@pytest.fixture(autouse=True)
def _leave_nothing() -> Iterator[None]:
    yield
    cost._priced_model.cache_clear()
    cost.context_window.cache_clear()


@given(st.sampled_from(MODELS), st.integers(19_000, 21_000), st.integers(0, 86_399), TOKENS, TOKENS, TOKENS)
def test_a_kept_price_is_that_of_the_library(
    tmp_path_factory: pytest.TempPathFactory,
    names: tuple[str, str],
    day: int,
    second: int,
    given_tokens: int,
    cached: int,
    answered: int,
) -> None:
    provider, model = names
    file = tmp_path_factory.mktemp("kept") / "prices.jsonl"
    asked = call(names, day * 86_400 + second, given_tokens + cached, cached, answered)
    prices = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        for _ in range(2):  # the second time by what the first has kept
            begin(monkeypatch, KeptAnswers(file))
            prices.append((cost.price(asked), cost.context_window(model, provider)))
    assert prices[0] == prices[1]
    usage = genai_prices.Usage(
        input_tokens=given_tokens + cached, cache_read_tokens=cached or None, output_tokens=answered
    )
    at = datetime.fromtimestamp(day * 86_400 + second, UTC)
    try:
        found = genai_prices.calc_price(usage, model, provider_id=provider, genai_request_timestamp=at)
    except (LookupError, ValueError):
        return
    assert prices[0][0] == cost.Price(pytest.approx(float(found.total_price)), estimated=False)


def test_a_second_process_does_not_load_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPANGRADE_CACHE_DIR", str(tmp_path))
    program = (
        "import sys; from spangrade.evaluator.derive.cost import _priced_model, context_window;"
        "print(_priced_model('gpt-4o', None, 'openai', 20400), context_window('gpt-4o', None),"
        " _priced_model('ours', None, None, 20400), 'genai_prices' in sys.modules)"
    )
    printed = [
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    ]
    assert printed[1] == printed[0].replace("True\n", "False\n") != printed[0]


@pytest.mark.parametrize(
    "content",
    [
        b'[["price", "gpt-4o", null, "openai", 20400], ["gpt-4o", ["0.1", "0.1"',
        b"\xff\xfe\n[]\n{}\n1\n[1]\n[[], []]\n",
        b'[["price", "gpt-4o", null, "openai", 20400], ["gpt-4o", ["free", "0", "0", "0"], false]]\n',
        b'[["price", "gpt-4o", null, "openai", 20400], ["gpt-4o", [0.1, 0, 0, 0], false]]\n',
        b'[["price", "gpt-4o", null, "openai", 20400], {"gpt-4o": 0}]\n[["window", "gpt-4o", null], "all"]\n',
    ],
    ids=["cut", "other lines", "a text for a rate", "a number for a rate", "an object"],
)
def test_a_file_that_says_something_else_changes_no_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    begin(monkeypatch, KeptAnswers(None))
    expected = cost._priced_model("gpt-4o", None, "openai", 20400)
    (tmp_path / "prices.jsonl").write_bytes(content)
    begin(monkeypatch, KeptAnswers(tmp_path / "prices.jsonl"))
    assert cost._priced_model("gpt-4o", None, "openai", 20400) == expected is not None
    assert cost.context_window("gpt-4o", None) == 128_000


def test_prices_that_a_process_sets_itself_are_neither_kept_nor_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prices.jsonl"
    begin(monkeypatch, KeptAnswers(file))
    assert cost.context_window("gpt-4o", "openai") == 128_000
    kept = file.read_bytes()
    set_custom_snapshot(DataSnapshot(providers=[], from_auto_update=False))
    try:
        begin(monkeypatch, KeptAnswers(file))
        assert cost.context_window("gpt-4o", "openai") is None
    finally:
        set_custom_snapshot(None)
    assert file.read_bytes() == kept


@pytest.mark.exhaustive
def test_a_full_file_or_none_only_takes_the_time_of_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "full.jsonl"
    full.write_bytes(b"\n" * cost._MAX_BYTES)
    for file in (full, full / "no folder", None):
        begin(monkeypatch, KeptAnswers(file))
        assert cost.context_window("gpt-4o", "openai") == 128_000
    assert full.stat().st_size == cost._MAX_BYTES
