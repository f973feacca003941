"""`spangrade view --export`: a run as a folder of pages with relative links."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from command_line import Spangrade
from hard_sessions import golden, store_session
from made_once import copy_of_sample
from pages import dangers, elements, embedded, find, find_all, name, parsed, text
from paths import SAMPLE

from spangrade import open as open_database


def exported(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.exhaustive
def test_a_run_becomes_an_index_and_a_page_for_each_session(tmp_path: Path, spangrade: Spangrade) -> None:
    open_database(tmp_path / "s.duckdb").grade(SAMPLE)
    done = spangrade("view", "--db", tmp_path / "s.duckdb", "--export", tmp_path / "site")
    assert (done.code, done.out) == (0, [f"{tmp_path}/site/index.html: 4 sessions"])
    pages = exported(tmp_path / "site")
    assert list(pages) == ["index.html", *(f"session/conversation-{number}.html" for number in range(1, 5))]
    for path, html in pages.items():
        root = parsed(html)
        assert dangers(root, scripts=1) == []
        assert "link" not in {name(element) for element in elements(root)}
        for link in find_all(root, href=""):
            address, _, fragment = (link.get("href") or "").partition("#")
            target = (Path(path).parent / unquote(address)) if address else Path(path)
            html_of_target = pages[str(Path(re.sub(r"[^/]+/\.\./", "", str(target))))]
            assert not fragment or f'id="{fragment}"' in html_of_target, link.get("href")


@pytest.mark.exhaustive
def test_the_folder_has_the_grid_and_the_sessions_of_the_report(tmp_path: Path, spangrade: Spangrade) -> None:
    database = open_database(tmp_path / "s.duckdb")
    database.grade(SAMPLE, name="before")
    database.grade(SAMPLE, name="after", gates="tool_success_rate>=0.9", out=tmp_path / "out")
    assert spangrade("view", "--db", database.path, "--export", tmp_path / "site").code == 0
    report = parsed((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    index = parsed((tmp_path / "site" / "index.html").read_text(encoding="utf-8"))
    rows = [[text(one) for one in find_all(page, data_place="")] for page in (index, report)]
    assert (len(rows[0]), rows[0]) == (4, rows[1])
    leads = [find_all(row, class_="row")[0].get("href") for row in find_all(index, data_place="")]
    assert leads[0] == "session/conversation-3.html"
    page = parsed((tmp_path / "site" / leads[0]).read_text(encoding="utf-8"))
    inside = next(one for one in embedded(report, "session") if "apply_discount" in text(one))
    assert [text(one) for one in find_all(page, data_span="")] == [
        text(one) for one in find_all(inside, data_span="")
    ]
    (body,) = [one for one in elements(page) if name(one) == "body"]
    assert body.get("class") == "workplace"


@pytest.mark.exhaustive
def test_the_beginning_of_an_id_names_the_run(tmp_path: Path, spangrade: Spangrade) -> None:
    database = open_database(tmp_path / "s.duckdb")
    first = database.grade(SAMPLE)
    database.grade(SAMPLE, gates="cost<=0")
    done = spangrade("view", "--db", database.path, "--export", tmp_path / "one", "--run", first.run_id[:12])
    assert done.code == 0
    index = parsed((tmp_path / "one" / "index.html").read_text(encoding="utf-8"))
    assert text(next(one for one in elements(index) if name(one) == "h1")) == f"Run {first.run_id[:12]}"
    assert "4 passed" in text(find(index, id="run"))
    assert spangrade("view", "--db", database.path, "--export", tmp_path / "latest").code == 0
    latest = parsed((tmp_path / "latest" / "index.html").read_text(encoding="utf-8"))
    assert "4 failed" in text(find(latest, id="run"))


def test_what_cannot_be_exported_is_an_error_in_one_line(tmp_path: Path, spangrade: Spangrade) -> None:
    database = open_database(tmp_path / "s.duckdb")
    database.grade(SAMPLE)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine", encoding="utf-8")
    done = spangrade("view", "--db", database.path, "--export", tmp_path / "full")
    assert (done.code, done.err) == (2, [f"spangrade: {tmp_path}/full: it is not empty: name a new folder"])
    done = spangrade("view", "--db", database.path, "--export", tmp_path / "new", "--run", "nope")
    assert (done.code, done.err) == (
        2,
        [f'spangrade: no run "nope" in {database.path}: `spangrade runs` lists them'],
    )
    assert not (tmp_path / "new").exists()
    done = spangrade("view", "--db", database.path, "--run", "nope")
    assert (done.code, done.err) == (2, ["spangrade: --run names the run to --export: expected both"])


@pytest.mark.exhaustive
def test_a_hostile_session_has_a_page_under_a_harmless_name(tmp_path: Path, spangrade: Spangrade) -> None:
    store_session(tmp_path / "s.duckdb")
    (tmp_path / "golden.json").write_text(json.dumps(golden()), encoding="utf-8")
    open_database(tmp_path / "s.duckdb").grade(tmp_path / "golden.json")
    assert spangrade("view", "--db", tmp_path / "s.duckdb", "--export", tmp_path / "site").code == 0
    pages = exported(tmp_path / "site")
    assert len(pages) == 2
    assert all(re.fullmatch(r"index\.html|session/~[0-9a-f]{32}\.html", path) for path in pages)
    assert [dangers(parsed(html), scripts=1) for html in pages.values()] == [[], []]


@pytest.mark.exhaustive
def test_a_run_is_exported_by_its_name(tmp_path: Path, spangrade: Spangrade) -> None:
    database = open_database(copy_of_sample(tmp_path / "s.duckdb"))
    database.grade(gates="cost<=1", name="main")
    database.grade(gates="token_usage<=0", name="later")
    done = spangrade("view", "--db", database.path, "--export", tmp_path / "site", "--run", "main")
    assert (done.code, done.out) == (0, [f"{tmp_path / 'site' / 'index.html'}: 4 sessions"])
    assert "cost" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
