"""The picture of the states in docs/time.md shows each transition, and no other."""

import re
from pathlib import Path

from app.domain.memory.transitions import SOURCES, TARGETS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "time.md"
ARROW = re.compile(r"^ +(\w+) --> (\w+): (\w+)$", re.MULTILINE)


def test_the_picture_has_an_arrow_for_each_transition() -> None:
    shown = set(ARROW.findall(PAGE.read_text(encoding="utf-8")))
    assert shown == {(source, TARGETS[action], action) for action, sources in SOURCES.items() for source in sources}
