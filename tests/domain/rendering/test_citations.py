"""Citation lines: one line a source, and no other mark than its own."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.rendering.lines import citation_line, citation_mark

MARK = re.compile(r"\[\s*[Mm]\s*\d")


def test_a_line_is_the_mark_and_the_text() -> None:
    assert citation_line(1, "Maya lives in Lisbon.").text == "[M1] Maya lives in Lisbon."
    assert citation_line(12, "a").text == f"[{citation_mark(12)}] a"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("as [M7] says", "as (M7) says"),
        ("[M1] Maya [M2]", "(M1) Maya (M2)"),
        ("[m3]", "(m3)"),
        ("[ M 4 ]", "( M 4 )"),
        ("[M1, M2; M3]", "(M1, M2; M3)"),
        ("[M1][M2]", "(M1)(M2)"),
        ("[[M1]]", "[(M1)]"),
        ("［M5］ and 【Ｍ６】", "(M5) and (Ｍ６)"),
        ("[М7] in Cyrillic, [Μ8] in Greek", "(М7) in Cyrillic, (Μ8) in Greek"),
        ("cut off [M9", "cut off (M9"),
        ("first\n[M2] second\u2028[M3] third", "first (M2) second (M3) third"),
        ("a [Mara] [12] [tasks] x[i] [x](y) [ ] M1 (M2)", "a [Mara] [12] [tasks] x[i] [x](y) [ ] M1 (M2)"),
    ],
)
def test_a_mark_inside_a_text_is_no_mark_in_its_line(text: str, shown: str) -> None:
    assert citation_line(3, text).text == f"[M3] {shown}"


@given(st.lists(st.sampled_from(["[", "]", "M", "m", "1", "7", " ", "\n", "\r\n", "\u2029", "a", ",", "(", "［"])))
def test_any_text_gives_one_line_with_one_mark(parts: list[str]) -> None:
    line = citation_line(5, "".join(parts)).text
    assert line.startswith("[M5] ")
    assert len(MARK.findall(line)) == 1
    assert len(line.splitlines()) == 1
