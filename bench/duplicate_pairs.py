"""The rule for near-duplicates on labelled pairs, and on all pairs of memories of the realistic users.

    python -m bench.duplicate_pairs

bench/duplicate_pairs.jsonl was written for this project and labelled before the rule: `same` says that both statements
say the same. The rule was written with the part `development`; `held-out` is only counted. The pairs count as close,
so that the figures are of the words alone.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

from app.domain.recall.near_duplicates import say_the_same
from bench.realistic_users import USERS, load_user
from bench.stale_pairs import Tally, count_findings

PAIRS_FILE: Final = Path(__file__).with_suffix(".jsonl")
PARTS: Final = ("development", "held-out")
CLOSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Pair:
    """Two statements, and the label that says if both say the same."""

    a: str
    b: str
    same: bool
    kind: str
    language: str
    part: str


def load_pairs(path: Path = PAIRS_FILE) -> list[Pair]:
    """Return the labelled pairs."""
    return [Pair(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def is_found(pair: Pair) -> bool:
    """Tell whether the rule folds the pair."""
    return say_the_same(pair.a, pair.b, CLOSE)


def tally_pairs(pairs: Iterable[Pair]) -> Tally:
    """Compare the rule with the labels."""
    return count_findings((pair.same, is_found(pair)) for pair in pairs)


def print_groups(pairs: Sequence[Pair], name: str, group: Callable[[Pair], str]) -> None:
    """Print the figures of each group: its pairs, and what is folded rightly, wrongly and not at all."""
    print(f"\n{name:22}{'pairs':>6}{'right':>7}{'wrong':>7}{'missed':>8}{'precision':>11}{'recall':>8}")
    for one in sorted({group(pair) for pair in pairs}):
        chosen = [pair for pair in pairs if group(pair) == one]
        tally = tally_pairs(chosen)
        precision = f"{tally.precision:.2f}" if tally.right + tally.wrong else "-"
        recall = f"{tally.recall:.2f}" if tally.right + tally.missed else "-"
        print(f"{one:22}{len(chosen):6}{tally.right:7}{tally.wrong:7}{tally.missed:8}{precision:>11}{recall:>8}")


def measure_user(name: str) -> Tally:
    """Apply the rule to all pairs of a user's memories. Members of one group say the same."""
    user = load_user(name)
    pairs = combinations(user.memories.items(), 2)
    return count_findings(
        (user.groups.get(a, a) == user.groups.get(b, b), say_the_same(one.text, other.text, CLOSE))
        for (a, one), (b, other) in pairs
    )


def main() -> None:
    """Print precision and recall by part, language and kind, and of each user's memories."""
    pairs = load_pairs()
    for part in PARTS:
        chosen = [pair for pair in pairs if pair.part == part]
        print(f"\n{part}: {tally_pairs(chosen)}")
        print_groups(chosen, "language", lambda pair: pair.language)
        print_groups(chosen, "kind", lambda pair: pair.kind)
    for name in USERS:
        print(f"all pairs of memories, user {name}: {measure_user(name)}")


if __name__ == "__main__":
    main()
