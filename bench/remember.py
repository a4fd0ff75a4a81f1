"""Precision and recall of notes that a user lays down, on labelled turns.

    python -m bench.remember            prints both halves
    python -m bench.remember --wrong    also prints what was missed and what was wrong in the development half

bench/remember.jsonl has turns by somebody who had not read the rules: requests to remember, orders to the agent, dates
of the family, and turns that look like them. A turn is right if the facts and proposals that capture makes of it have
all words of `must_contain`; a `negative` turn is right if it leaves nothing.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from app.domain.reflection.capture import CapturePolicy, capture_facts
from app.domain.text_rules import TextLimits
from bench.capture import PARTS, shipped_policy

FILE: Final = Path(__file__).with_name("remember.jsonl")
NEGATIVE: Final = "negative"


def load_notes() -> list[dict[str, Any]]:
    """Return the labelled turns."""
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def keep_texts(text: str, policy: CapturePolicy) -> list[str]:
    """Return the texts and the values of proposals that capture makes of a turn."""
    captured = capture_facts(text, policy, TextLimits())
    values = [field.value for field in captured.fields if field.value]
    return [*(f"[{fact.category}] {fact.text}" for fact in captured.facts), *values]


def is_kept(row: dict[str, Any], texts: Sequence[str]) -> bool:
    """Tell whether the texts have all words of the label."""
    whole = " ".join(texts).casefold()
    return bool(texts) and all(word.casefold() in whole for word in row["must_contain"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wrong", action="store_true", help="print what was missed and what was wrong")
    chosen = parser.parse_args(arguments)
    policy = shipped_policy()
    for part in PARTS:
        kept = Counter[str]()
        count = Counter[str]()
        made = 0
        for row in (row for row in load_notes() if row["part"] == part):
            texts = keep_texts(row["text"], policy)
            right = not texts if row["kind"] == NEGATIVE else is_kept(row, texts)
            made += bool(texts)
            count[row["kind"]] += 1
            kept[row["kind"]] += right
            if chosen.wrong and part == PARTS[0] and not right:
                print(f"  {row['id']} {row['kind']}: {row['text']!r} -> {texts}")
        good = sum(kept[kind] for kind in count if kind != NEGATIVE)
        wished = sum(number for kind, number in count.items() if kind != NEGATIVE)
        kinds = ", ".join(f"{kind} {kept[kind]}/{number}" for kind, number in count.items())
        print(f"notes, {part}: precision {good / made if made else 1:.3f}, recall {good / wished:.3f} ({kinds})")


if __name__ == "__main__":
    main()
