"""Prices of the project's own: which calls they price, what records it, when sessions are derived again."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import built_session, reading
from paths import SAMPLE
from serving import serving

import spangrade as public
from spangrade.evaluator.apps.server.grade.options import WatchOptions
from spangrade.evaluator.apps.server.pages.database import ViewedDatabase, viewed
from spangrade.evaluator.derive import update
from spangrade.evaluator.derive.cost import OwnPrice
from spangrade.evaluator.derive.settings import Configured, apply, differs, settings_of
from spangrade.tracer.store import Store

ACME = OwnPrice("acme-*", 2.0, 10.0, 0.5, 3.0)
CALL = reading(
    "llm",
    "call",
    model="Acme-Large",
    input_tokens=1_000_000,
    output_tokens=200_000,
    cached_input_tokens=400_000,
    cache_write_tokens=100_000,
)


def test_the_first_price_of_the_model_counts_each_kind_of_token() -> None:
    session = built_session("s", "conversation", [CALL], prices=[OwnPrice("other", 9, 9, 9, 9), ACME, ACME])
    assert session.cost_usd == pytest.approx(0.5 * 2 + 0.4 * 0.5 + 0.1 * 3 + 0.2 * 10)
    assert (session.cost_unknown, session.cost_configured) == (None, "Acme-Large")
    assert [(call.cost_configured, call.cost_estimated) for call in session.llm_calls] == [(True, False)]


@pytest.mark.parametrize(
    "call", [CALL._replace(input_tokens=None), CALL._replace(model="other-model"), CALL._replace(model=None)]
)
def test_what_has_no_price_or_no_usage_stays_unknown(call: object) -> None:
    session = built_session("s", "conversation", [call], prices=[ACME])  # type: ignore[list-item]
    assert (session.cost_usd, session.cost_configured) == (None, None)


@pytest.mark.exhaustive
def test_a_change_of_the_settings_derives_again_and_the_run_names_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "spangrade.toml"
    monkeypatch.setenv("SPANGRADE_CONFIG", str(file))
    costs = []
    for text in ("", _prices(1), _prices(2), "# the database remembers\n", "prices = []"):
        file.write_text(text)
        run = public.open(tmp_path / "s.duckdb").grade(SAMPLE)
        rows = public.open(tmp_path / "s.duckdb").sql("SELECT sum(cost_usd) AS usd FROM sessions").rows()
        costs.append((round(rows[0]["usd"], 9), list(run.price_overrides)))
    library, once, twice, remembered, removed = costs
    assert once[1] == twice[1] == remembered[1] == ["gemini-2.5-flash"]
    assert twice == (pytest.approx(2 * once[0]), once[1])
    assert remembered == twice
    assert removed == library == (pytest.approx(0.0007743), [])
    file.write_text(_prices(2))
    rows = public.open(tmp_path / "s.duckdb").sql("SELECT sum(cost_usd) AS usd FROM sessions").rows()
    assert rows[0]["usd"] == twice[0]
    saved = public.open(tmp_path / "s.duckdb").sql("SELECT price_overrides FROM runs ORDER BY graded_at")
    assert [row["price_overrides"] for row in saved.rows()] == [
        None,
        *[["gemini-2.5-flash"]] * 3,
        None,
    ]


@pytest.mark.parametrize("door", ["list", "page", "watch", "delete"])
@pytest.mark.short_form("door", 4)
def test_whoever_reads_sessions_applies_changed_settings_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    db, file = tmp_path / "s.duckdb", tmp_path / "spangrade.toml"
    monkeypatch.setenv("SPANGRADE_CONFIG", str(file))

    def cost() -> float:
        total = public.open(db, settings=None).sql("SELECT sum(cost_usd) AS usd FROM sessions").rows()
        return float(total[0]["usd"])

    file.write_text(_prices(1))
    public.open(db).import_files(SAMPLE / "spans.otlp.jsonl")
    before = cost()
    file.write_text(_prices(2))
    opened = public.open(db)
    if door == "list":
        opened.list_sessions()
    elif door == "page":
        with serving(viewed(opened.stored)) as served:
            assert served.get("/").status == 200
    elif door == "watch":
        opened.watch(gates="tool_success_rate>=0.5", options=WatchOptions(once=True))
    else:
        opened.delete(before="1999-01-01")
    assert cost() == pytest.approx(2 * before)


@pytest.mark.exhaustive
def test_a_page_does_not_undo_settings_that_came_after_its_start(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    public.open(db, settings=None).import_files(SAMPLE / "spans.otlp.jsonl")
    cheap, dear = (OwnPrice("gemini-*", usd, usd, usd, usd) for usd in (1.0, 2.0))
    with serving(ViewedDatabase(db, Configured(prices=(cheap,)))) as served:
        with Store.open(db) as store:
            assert settings_of(store).prices == (cheap,)
            apply(store, Configured(prices=(dear,)))
            update(store)
        assert served.get("/").status == 200
        with Store.open(db) as store:
            assert settings_of(store).prices == (dear,)


def test_a_database_has_other_settings_if_its_prices_are_others(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        assert not differs(store, Configured(prices=()))
        assert differs(store, Configured(prices=(ACME,)))
        apply(store, Configured(prices=(ACME,)))
        assert not differs(store, Configured())
        assert not differs(store, Configured(prices=(ACME._replace(),)))
        assert differs(store, Configured(prices=(ACME._replace(input=1.0),)))
        assert differs(store, Configured(prices=()))


def _prices(usd: int) -> str:
    return f"[[prices]]\nmodel = 'GEMINI-*'\ninput_per_million = {usd}\noutput_per_million = {usd}\n"
