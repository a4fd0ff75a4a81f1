"""Measure how many standing instructions the rules find, and how many of those they find are some.

The corpus was written before the rules, by the same hand. Only `development.jsonl` was used to mend them.

    python -m bench.instructions                 prints the figures of the rules
    python -m bench.instructions --fit MODEL     fits when a question is near a condition, and prints the figures
    python -m bench.instructions --fit MODEL --write    also writes config/models/MODEL.instructions.yaml
"""

import argparse
import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.domain.memory.instructions import read_instruction
from bench.instructions.nearness import fit_model

FOLDER: Final = Path(__file__).parent
SETS: Final = ("development", "held_out")
LANGUAGES: Final = ("en", "de", "es", "fr", "pt", "ja")


@dataclass(slots=True)
class Counts:
    """The sentences of a set in one language: `right` and `wrong` of those found, and those `missed`.

    `other_kind`: found, but with a condition where there is none, or without the one that there is.
    """

    right: int = 0
    wrong: int = 0
    missed: int = 0
    other_kind: int = 0

    @property
    def precision(self) -> float:
        """The share of the found sentences that are instructions."""
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """The share of the instructions that were found."""
        return self.right / max(1, self.right + self.missed)


def read_corpus(name: str) -> Iterator[dict[str, Any]]:
    """Yield the sentences of a set: `language`, `text` and `kind` (always, conditional or none)."""
    for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def measure_set(name: str, language: str) -> Counts:
    """Count what the rules find in the sentences of one language."""
    counts = Counts()
    for row in read_corpus(name):
        if row["language"] != language:
            continue
        found = read_instruction(row["text"])
        if found is None:
            counts.missed += row["kind"] != "none"
        elif row["kind"] == "none":
            counts.wrong += 1
        else:
            counts.right += 1
            counts.other_kind += ("conditional" if found.condition else "always") != row["kind"]
    return counts


def print_rules() -> None:
    """Print a line for each set and language."""
    print(f"{'set':<12} {'language':<9} {'precision':>9} {'recall':>7} {'found':>6} {'wrong':>6} {'other kind':>11}")
    for name in SETS:
        for language in LANGUAGES:
            counts = measure_set(name, language)
            print(
                f"{name:<12} {language:<9} {counts.precision:>9.3f} {counts.recall:>7.3f} {counts.right:>6} "
                f"{counts.wrong:>6} {counts.other_kind:>11}"
            )


def main() -> None:
    """Print the figures of the rules, or fit the nearness of a model."""
    parser = argparse.ArgumentParser(prog="python -m bench.instructions")
    parser.add_argument("--fit", metavar="MODEL", help="an embedding model of this machine")
    parser.add_argument("--write", action="store_true", help="write the file of the model")
    options = parser.parse_args()
    if options.fit is None:
        print_rules()
        return
    asyncio.run(fit_model(options.fit, write=options.write))


if __name__ == "__main__":
    main()
