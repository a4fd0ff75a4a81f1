"""The rules of each language on labelled sets: precision, recall, and what is read wrongly.

    python -m bench.language_rules               prints the figures of both parts
    python -m bench.language_rules --failures    also prints what the development part has that was read wrongly

bench/languages/rules has sets in German, Spanish, French, Portuguese and Japanese. Other people wrote the development
part before there were rules, and the held-out part after them, without having read them. `others.jsonl` has languages
without rules: there nothing may be stored, merged or hidden. The rules run in memory, without a database.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from app.config.loader import load_policies
from app.domain.consent.answers import classify_answer
from app.domain.facts import reading
from app.domain.memory.same_fact import same_fact
from app.domain.recall.near_duplicates import say_the_same
from app.domain.reflection.capture import capture_facts
from bench.fact_rules import Ranked, load_topics
from bench.retractions import Memory

FOLDER: Final = Path(__file__).parent / "languages" / "rules"
LANGUAGES: Final = ("de", "es", "fr", "pt", "ja")
PARTS: Final = ("development", "held_out")
Row = Mapping[str, Any]


@dataclass(slots=True)
class Figures:
    """The outcome of one set: right and wrong readings, and what was not read."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """The share of readings that are right; 1 without any."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """The share of what should be read that was read rightly; 1 without any."""
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0

    def count(self, expected: object, found: object, what: str) -> None:
        """Count one reading. None means that nothing is to be read, or was read."""
        if found is not None and found != expected:
            self.wrong += 1
            self.failures.append(f"{what} → {found}")
        if expected is not None:
            self.right += found == expected
            self.missed += found != expected


def load_rows(language: str, part: str) -> list[Row]:
    """Return the labelled lines of a part; `others` has one part only."""
    name = f"{language}.{part}.jsonl" if part else f"{language}.jsonl"
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def measure(rows: Sequence[Row]) -> dict[str, Figures]:
    """Return the figures of each set."""
    figures = {name: Figures() for name in READERS}
    for row in rows:
        READERS[row["set"]](row, figures[row["set"]])
    return figures


def _memory_of(stored: Mapping[str, Sequence[str]]) -> Memory:
    memory = Memory(load_topics())
    for topic, values in stored.items():
        ranked: Ranked = {None: values[0]} if len(values) == 1 else dict(enumerate(values, 1))
        memory.facts[topic] = ranked
    return memory


def _values_of(memory: Memory) -> dict[str, list[str]]:
    """Return the values of each topic, best first."""
    return {
        topic: [value for _, value in sorted(ranked.items(), key=lambda pair: pair[0] or 0)]
        for topic, ranked in memory.facts.items()
    }


def _read_message(row: Row, figures: Figures) -> None:
    memory = _memory_of(row["stored"])
    memory.read_message(row["text"])
    after = _values_of(memory)
    expected = row["after"] if row["after"] != row["stored"] else None
    figures.count(expected, after if after != row["stored"] else None, row["text"])


def _read_question(row: Row, figures: Figures) -> None:
    expected = [value for values in (row["expect"] or {}).values() for value in values] or None
    figures.count(expected, _memory_of(row["stored"]).answer(row["query"]) or None, row["query"])


def _read_retraction(row: Row, figures: Figures) -> None:
    """An answer with a value that was taken back is wrong; no answer is safe."""
    memory = _memory_of({})
    for turn in row["turns"]:
        memory.read_message(turn)
    told = memory.answer(row["question"])
    expected = [row["value"]] if row["value"] else None
    if expected is None:
        figures.right += not told
        figures.wrong += bool(told)
        if told:
            figures.failures.append(f"{row['turns']} → {told}")
    else:
        figures.count(expected, told or None, str(row["turns"]))


@cache
def _policies() -> Any:
    return load_policies("all-MiniLM-L6-v2")


def captured_quotes(text: str) -> list[str]:
    """Return what capture keeps of a message: the words of facts, and the values of proposed fields."""
    policies = _policies()
    found = capture_facts(text, policies.capture, policies.write.text_limits)
    return [*(fact.quote for fact in found.facts), *(one.value or "" for one in found.fields)]


def _read_capture(row: Row, figures: Figures) -> None:
    """A captured clause is right if it and a labelled one overlap."""
    quotes = [fact["quote"].casefold() for fact in row["facts"]]
    captured = [quote.casefold() for quote in captured_quotes(row["text"])]
    for found in captured:
        if any(found in quote or quote in found for quote in quotes):
            continue
        figures.wrong += 1
        figures.failures.append(f"{row['text']} → {found}")
    for quote in quotes:
        read = any(found in quote or quote in found for found in captured)
        figures.right += read
        figures.missed += not read


def _read_note(row: Row, figures: Figures) -> None:
    keep = row["keep"]
    found = captured_quotes(row["text"])
    held = keep and any(keep.casefold() in one.casefold() or one.casefold() in keep.casefold() for one in found)
    figures.count(keep, keep if held else "; ".join(found) or None, row["text"])


def _read_consent(row: Row, figures: Figures) -> None:
    verdict = classify_answer(row["answer"])
    expected = row["verdict"]
    figures.count(None if expected == "unclear" else expected, None if verdict == "unclear" else verdict, row["answer"])


def _read_pair(row: Row, figures: Figures) -> None:
    same = same_fact(row["a"], row["b"], numeric_update=False) is not None or say_the_same(row["a"], row["b"], 1.0)
    figures.count(True if row.get("same") else None, True if same else None, f"{row['a']} | {row['b']}")


def _read_turn(row: Row, figures: Figures) -> None:
    topics = load_topics()
    found = [*captured_quotes(row["text"]), *map(str, reading.read_stated(row["text"], topics))]
    asked = row["kind"] == "order_to_remember"  # whatever the language, what a user orders may be kept
    figures.count(None, None if asked else "; ".join(found) or None, row["text"])


READERS: Final[Mapping[str, Callable[[Row, Figures], None]]] = {
    "facts_messages": _read_message,
    "facts_questions": _read_question,
    "retractions": _read_retraction,
    "capture": _read_capture,
    "statements": _read_note,
    "consent": _read_consent,
    "same_fact": _read_pair,
    "turns": _read_turn,
    "different_pairs": _read_pair,
}


def main() -> None:
    """Print the figures of each language and set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failures", action="store_true", help="print what was read wrongly in the development part")
    options = parser.parse_args()
    places = [*((language, part) for part in PARTS for language in LANGUAGES), ("others", "")]
    wrong: Counter[str] = Counter()
    for language, part in places:
        for name, figures in measure(load_rows(language, part)).items():
            if not figures.right + figures.wrong + figures.missed and part:
                continue
            wrong[part] += figures.wrong
            print(
                f"{language:7} {part:12} {name:16} precision {figures.precision:.2f}  recall {figures.recall:.2f}"
                f"  right {figures.right}, wrong {figures.wrong}, missed {figures.missed}"
            )
            if options.failures and part != "held_out":
                print(*(f"    {failure}" for failure in figures.failures), sep="\n")
    print(f"wrong: {dict(wrong)}")


if __name__ == "__main__":
    main()
