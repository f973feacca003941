"""One session as a file: all of its page, what the command prints, no personal data if asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Spangrade
from otlp_sessions import Call, Said, write_sessions
from pages import dangers, parsed
from serving import Served, serving

import spangrade as package

MAIL = "ann@example.com"
ATTACK = "</script><script>window.hit=1</script>"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("file")
    said = f"I am {MAIL}"
    calls = [Call("look_up", {"mail": MAIL, "password": "hunter2"}, {"of": MAIL}), Call(ATTACK, error=MAIL)]
    opened = package.open(folder / "s.duckdb")
    opened.import_files(
        write_sessions(folder / "s.jsonl", [(f"of {MAIL}", [Said(said, said + ATTACK, calls)])])
    )
    opened.label(f"of {MAIL}", "fail", by="bob", note=f"ask {MAIL}")
    opened.grade(gates=["tool_success_rate>=1"])
    return folder / "s.duckdb"


@pytest.fixture(scope="module")
def served(db: Path) -> Iterator[Served]:
    with serving(db) as one:
        yield one


PATH = "/session/~b2YgYW5uQGV4YW1wbGUuY29t"


def test_the_file_of_records_is_what_the_command_prints(
    served: Served, db: Path, spangrade: Spangrade
) -> None:
    answer = served.get(f"{PATH}/file.json")
    assert answer.headers["content-type"].startswith("application/json")
    printed = spangrade("show", f"of {MAIL}", "--format", "json", "--db", db)
    assert json.loads(answer.text) == json.loads("\n".join(printed.out))


def test_the_page_as_a_file_needs_nothing_but_itself(served: Served) -> None:
    answer = served.get(f"{PATH}/file.html")
    assert 'filename="~b2Yg' in answer.headers["content-disposition"]
    root = parsed(answer.text)
    assert dangers(root) == []
    assert list(root.iter("link")) == []
    assert 'href="/' not in answer.text
    assert answer.text.count(MAIL) > 4


@pytest.mark.parametrize("kind", ["html", "json"])
def test_without_personal_data_no_text_has_them(served: Served, kind: str) -> None:
    answer = served.get(f"{PATH}/file.{kind}?redacted=1")
    assert answer.status == 200
    assert (MAIL in answer.text, "hunter2" in answer.text, "[email]" in answer.text) == (False, False, True)
    assert f'filename="session.{kind}"' in answer.headers["content-disposition"]


def test_no_other_file_is_there(served: Served) -> None:
    assert [served.get(f"{path}").status for path in (f"{PATH}/file.csv", "/session/none/file.html")] == [
        404,
        404,
    ]
