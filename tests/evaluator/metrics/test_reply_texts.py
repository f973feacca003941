"""Texts of replies compared: spelling does not count, numbers are whole, a text is in its sentence."""

from __future__ import annotations

import re
import sys
from decimal import Decimal
from pathlib import Path
from unicodedata import category, combining

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from spangrade.evaluator.metrics.masked import may_contain
from spangrade.evaluator.metrics.reply_texts import FOLDED, contains, folded, revealed, same_text
from spangrade.evaluator.similarity_utils import reply_form

# Sentences around a text, each as its script writes them: with spaces, or without.
SENTENCES = (
    "The total is {}, as agreed.",
    "Это стоит {} сейчас.",
    "Το ποσό είναι {}.",
    "הסכום הוא ב-{} בערך",
    "السعر هو {} فقط",
    "कुल राशि {} है।",
    "ราคา{}ครับ",
    "合計は{}です。",
    "总共{}。",
    "약 {}입니다",
    "제{}조",
    "«{}»",
    "({})",
    "{}",
)
# How a whole number is written; each has the same value.
GROUPED = (",", "'", "’", "\u00a0", "\u2009", "\u202f")
NUMBERS = st.integers(0, 10**9) | st.decimals("0.01", 10**6, places=2)


def written(number: int | Decimal, separator: str, zeros: int) -> str:
    """Return a number with a separator of thousands, and zeros at the end of its decimal part."""
    whole, _, decimals = f"{number:,}".partition(".")
    decimals += "0" * zeros
    return whole.replace(",", separator) + (f".{decimals}" if decimals else "")


@pytest.mark.exhaustive
def test_folding_is_idempotent_for_every_character():
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        if category(letter) == "Cs":
            continue
        for text in (letter, f"a{letter}1", f"1{letter}234", f"-{letter}5.50"):
            for form in (folded, revealed, lambda text: folded(text, case=True)):
                assert form(form(text)) == form(text), hex(code)


@given(st.text() | st.from_regex(r"[-$a ]?[\d.,'’\u00a0\u2009\u202f:/–-]{1,14}[ %k0]?", fullmatch=True))
@example("12,3450")
@example("12,34500")
@example("1\u00a0234\u00a05,000")
@example("ŉ\u0345ϓ\u0308")
def test_folding_is_idempotent(text):
    assert folded(folded(text)) == folded(text)
    assert folded(folded(text, case=True), case=True) == folded(text, case=True)
    assert revealed(revealed(text)) == revealed(text)


SPELLINGS = st.sampled_from([(one, to) for to, all_of_it in FOLDED.items() for one in all_of_it])


@given(
    st.text(st.sampled_from("ab '\"-.15,"), min_size=1, max_size=6), st.text(st.sampled_from("ab '\"-.15,"))
)
def test_who_contains_whom_does_not_depend_on_spelling(wanted, reply):
    assume(wanted.strip())
    spelled = str.maketrans({"'": "’", '"': "”", "-": "–", "1": "１", "a": "Ａ", " ": "\u2003"})
    expected = contains(reply, wanted)
    assert contains(reply.translate(spelled), wanted) == expected
    assert contains(reply, wanted.translate(spelled)) == expected
    assert contains(reply.translate(spelled), wanted.translate(spelled)) == expected
    assert (reply_form(reply) == reply_form(wanted)) == (
        reply_form(reply.translate(spelled)) == reply_form(wanted)
    )


def test_the_documented_table_is_the_one_in_force():
    page = Path(__file__).parents[2].joinpath("cases", "checks.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([^`]+)` \| ([^|a-z]+) \|$", page.partition("| is one |")[2], re.MULTILINE))
    assert {to: row.split() for to, row in rows.items()} == {to: list(one) for to, one in FOLDED.items()}


@given(SPELLINGS)
def test_each_character_of_the_table_is_the_one_that_it_is_folded_to(pair):
    one, to = pair
    assert same_text(f"a{one}b", f"a{to}b")
    assert contains(f"x a{one}b x", f"a{to}b")


@given(NUMBERS, NUMBERS, st.sampled_from(GROUPED), st.sampled_from(GROUPED), st.integers(0, 3))
def test_a_number_matches_itself_however_it_is_written_and_no_other_number(one, other, left, right, zeros):
    for before, after in (("", ""), ("$", ""), ("", " EUR"), ("-", ""), ("", "%"), ("is ", "kg")):
        wanted = f"{before}{written(one, left, 0)}{after}"
        reply = f"It {before}{written(other, right, zeros)}{after}."
        assert contains(reply, wanted) == (one == other)


@given(NUMBERS, NUMBERS, st.sampled_from(SENTENCES))
def test_no_part_of_a_number_is_a_number(one, other, sentence):
    reply = sentence.format(written(other, ",", 0))
    for wanted in {str(other)[:-1], str(other)[1:], f"-{other}", str(one)}:
        digits = wanted.lstrip("0,.-")
        if re.search(r"\d", digits) and (wanted.startswith("-") or Decimal(wanted) != Decimal(other)):
            assert not contains(reply, wanted), wanted


WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cf", "Zs", "Zl", "Zp"]), min_size=1
)


@given(WORDS | st.text(st.sampled_from("A1-.,' 5°€"), min_size=1), st.sampled_from(SENTENCES))
def test_each_text_is_in_a_sentence_of_any_script_that_has_it(text, sentence):
    # A mark that joins the letter before it, a sign that the hyphen before makes another word: no text alone.
    assume(text.strip() and not combining(text[0]) and category(text[0])[0] != "M")
    assume(not (text[0] in "-.,':/_" or "\u1100" <= text[0] <= "\u11ff"))
    assume(text[-1] not in "-,.'_/:")
    assert contains(sentence.format(text), text)


@pytest.mark.parametrize(
    ("wanted", "reply"),
    [
        ("15", "15kg"),
        ("15", "15%"),
        ("15", "on the 15th"),
        ("2026-11-28", "at 2026-11-28T10:00"),
        ("$15", "$15.00 in all"),
        ("$15", "US$15"),
        ("refund", "you were refunded"),
        ("返金", "返金されました"),
        ("-5 °C", "now −5 °C"),
        ("-5", "気温は-5度"),
        ("5", "ORD-5"),
        ("1,234", "1.234 or 1234"),
        ("it's", "It’s"),
        ("ｶﾞｽ 15", "ガス １５"),
        ("wait...", "Wait…"),
    ],
)
def test_a_text_is_found(wanted, reply):
    assert contains(reply, wanted)


@pytest.mark.parametrize(
    ("wanted", "reply"),
    [
        ("100 EUR", "1,100 EUR"),
        ("$15", "$15.50"),
        ("15", "-$15"),
        ("$15", "-$15"),
        ("A1", "A12"),
        ("A1", "A1-2"),
        ("12", "A12"),
        ("12", "1,2 or 3"),
        ("5 °C", "-5 °C"),
        ("-5", "3–5"),
        ("-5", "ORD-5"),
        (".50", "1.50"),
        ("15.", "15.50"),
        ("10", "10²"),
        ("102", "10²"),
        ("2", "2½"),
        ("1234", "1.234"),
        ("234", "0,234"),
        ("v2.1", "v2.10"),
        ("10", "10:30"),
        ("24", "24/7"),
    ],
)
def test_a_text_is_not_found(wanted, reply):
    assert not contains(reply, wanted)


def test_what_must_not_be_said_is_found_behind_look_alikes_and_powers_stay_powers():
    assert "refund" in revealed("𝐫𝐞\u200bﬀund ｒｅｆｕｎｄ ⓡefund")
    assert revealed("10²") == "10²"
    assert revealed("don´t") == revealed("don't") == "don't"


def test_a_case_counts_in_whole_replies_alone():
    assert not same_text("Shipped", "shipped")
    assert same_text("It’s  1,000 – shipped", "It's 1000 - shipped")


def test_a_masked_part_may_be_a_text_whatever_its_quotes():
    assert may_contain("“ann@example.com”", 'it was "[email]"')
