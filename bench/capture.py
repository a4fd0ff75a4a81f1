"""Precision and recall of capture, and of the gate that decides what a chat model reads, on labelled turns.

    python -m bench.capture            prints both halves of the turns, and the three chats
    python -m bench.capture --wrong    also prints what was missed and what was wrong

bench/capture_turns.jsonl has turns of our own: `facts` are the sentences and categories that capture should store,
`discloses` says whether the turn plainly tells of its speaker's life or work. Two thirds were written to mislead:
questions, suppositions, reports of others, doubts, jokes, pasted texts, tasks of the moment. All were labelled before
the rule was written. `part` is `development` or `held-out`; the rule was tuned on the first alone.
bench/capture_chats.jsonl has three chats of forty turns each, and the facts of each turn.
A captured fact counts as right only if its sentence and its category are those of the label.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from app.config.loader import load_capture, load_categories
from app.config.yaml_files import CONFIG_DIR
from app.domain.reflection.capture import CapturePolicy, capture_facts
from app.domain.reflection.self_disclosure import discloses_fact
from app.domain.text_rules import TextLimits

TURNS_FILE: Final = Path(__file__).with_name("capture_turns.jsonl")
CHATS_FILE: Final = Path(__file__).with_name("capture_chats.jsonl")
PARTS: Final = ("development", "held-out")
Fact = tuple[str, str]
"""A sentence and its category."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A labelled turn. `part` is a half of the turns, or the name of a chat."""

    part: str
    role: str
    text: str
    facts: frozenset[Fact]
    discloses: bool


@dataclass(slots=True)
class Figures:
    """Counts of right, wrong and missed answers, and the wrong and missed ones themselves."""

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """The share of answers that are right; 1 without any."""
        return self.right / (self.right + len(self.wrong)) if self.right + len(self.wrong) else 1.0

    @property
    def recall(self) -> float:
        """The share of labels that were answered; 1 without any."""
        return self.right / (self.right + len(self.missed)) if self.right + len(self.missed) else 1.0


def load_turns() -> list[Turn]:
    """Return the labelled turns."""
    return [_read_turn(row, row["part"]) for row in _read_rows(TURNS_FILE)]


def load_chats() -> list[Turn]:
    """Return the turns of the chats, in order. `part` is the chat."""
    return [_read_turn(row, row["chat"]) for row in _read_rows(CHATS_FILE)]


def shipped_policy() -> CapturePolicy:
    """Return the shipped table of captured facts."""
    return load_capture(CONFIG_DIR / "capture.yaml", load_categories(CONFIG_DIR / "memory_cat_config.yaml", 30))


def measure_capture(turns: Iterable[Turn], policy: CapturePolicy) -> Figures:
    """Compare what is captured from each user's turn with its label."""
    figures = Figures()
    for turn in turns:
        if turn.role != "user":
            continue
        captured = {(fact.text, fact.category) for fact in capture_facts(turn.text, policy, TextLimits()).facts}
        figures.right += len(captured & turn.facts)
        figures.wrong += [f"{turn.text!r}: {fact}" for fact in sorted(captured - turn.facts)]
        figures.missed += [f"{turn.text!r}: {fact}" for fact in sorted(turn.facts - captured)]
    return figures


def measure_gate(turns: Iterable[Turn]) -> Figures:
    """Compare the gate's answer for each turn with its label."""
    figures = Figures()
    for turn in turns:
        found = discloses_fact(turn.text)
        figures.right += found and turn.discloses
        figures.wrong += [turn.text] if found and not turn.discloses else []
        figures.missed += [turn.text] if turn.discloses and not found else []
    return figures


def _read_rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _read_turn(row: dict[str, object], part: object) -> Turn:
    labels = row["facts"]
    assert isinstance(labels, list)
    facts = frozenset((label["text"], label["category"]) for label in labels)
    return Turn(str(part), str(row.get("role", "user")), str(row["text"]), facts, bool(row.get("discloses", facts)))


def _print_figures(name: str, figures: Figures, count: int, *, details: bool) -> None:
    print(f"{name:<22} {count:>5} turns   precision {figures.precision:.3f}   recall {figures.recall:.3f}")
    for kind, lines in (("wrong", figures.wrong), ("missed", figures.missed)) if details else ():
        for line in lines:
            print(f"    {kind}: {line}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Precision and recall of capture and of its gate.")
    parser.add_argument("--wrong", action="store_true", help="print what was missed and what was wrong")
    parser.add_argument("--part", choices=PARTS, help="only this half")
    options = parser.parse_args(arguments)
    policy = shipped_policy()
    turns = load_turns()
    chats = load_chats()
    for part in (options.part,) if options.part else PARTS:
        chosen = [turn for turn in turns if turn.part == part]
        captured = measure_capture(chosen, policy)
        gate = measure_gate(chosen)
        _print_figures(f"capture, {part}", captured, len(chosen), details=options.wrong)
        _print_figures(f"gate, {part}", gate, len(chosen), details=options.wrong)
    for chat in dict.fromkeys(turn.part for turn in chats):
        chosen = [turn for turn in chats if turn.part == chat]
        _print_figures(f"capture, {chat}", measure_capture(chosen, policy), len(chosen), details=options.wrong)


if __name__ == "__main__":
    main()
