"""Retractions of stored facts, on labelled threads: which questions are answered right afterwards.

    python -m bench.retractions              prints the figures of both halves
    python -m bench.retractions --failures   also prints the threads of the development half that were read wrongly

bench/retractions.jsonl has threads by somebody who had not read the rules: messages of a user, and a question. After
`removed` and `unsure` no stored fact may answer it, after `corrected` and `unchanged` the `value` must. What `never`
names is told in no case. The operations apply here to a model in memory, so the figures need no database.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from app.domain.facts import reading
from app.domain.facts.fact import FactOperation
from app.domain.facts.retractions import KnownFact, ThreadOperation, is_taken_back
from app.domain.facts.topics import FactTopics
from bench.fact_rules import MAX_RANK, Thread, answer_parts, apply_operation, load_topics

FILE: Final = Path(__file__).with_name("retractions.jsonl")
PARTS: Final = ("development", "held-out")
OUTCOMES: Final = ("removed", "corrected", "unchanged", "unsure")


@dataclass(slots=True)
class Memory:
    """The facts of one thread, what is in doubt, and the topics that the last message stated."""

    topics: FactTopics
    facts: Thread = field(default_factory=dict)
    doubted: set[tuple[str, str]] = field(default_factory=set)
    latest: frozenset[str] = frozenset()

    def read_message(self, text: str) -> None:
        """Apply a message of the user as storage does."""
        stated = reading.read_stated(text, self.topics, MAX_RANK)
        known = [
            KnownFact(None, topic, rank, value, topic in self.latest)
            for topic, values in self.facts.items()
            for rank, value in values.items()
        ]
        retracted = reading.read_retractions(text, known, self.topics, stated) if reading.may_retract(text) else []
        before = {topic: dict(values) for topic, values in self.facts.items()}
        for one in retracted:
            self._apply(one)
        for operation in stated:
            if not is_taken_back(operation, retracted):
                self._state(operation)
        self.latest = frozenset(topic for topic, values in self.facts.items() if before.get(topic) != values)

    def _apply(self, one: ThreadOperation) -> None:
        if one.operation.op == "doubt":
            self.doubted |= {(one.operation.topic_key or "", value) for _, value in one.operation.entries}
        else:
            self._state(one.operation)

    def _state(self, operation: FactOperation) -> None:
        apply_operation(self.facts, operation)
        stated = {(operation.topic_key or "", value) for _, value in operation.entries}
        self.doubted -= stated

    def answer(self, question: str) -> list[str]:
        """Return the values that answer a question; none if one of them is in doubt."""
        found = answer_parts(reading.parse_question(question, self.topics), {"t": self.facts}, "t") or {}
        told = [(topic, value) for topic, values in found.items() for value in values]
        return [] if any(one in self.doubted for one in told) else [value for _, value in told]


def load_threads() -> list[dict[str, Any]]:
    """Return the labelled threads."""
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def is_right(row: dict[str, Any], topics: FactTopics) -> tuple[bool, list[str]]:
    """Return whether a thread's question is answered as labelled, and the values told."""
    memory = Memory(topics)
    for turn in row["turns"]:
        memory.read_message(turn)
    told = memory.answer(row["question"])
    text = " | ".join(told)
    if any(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE) for value in row["never"]):
        return False, told
    if row["outcome"] in ("removed", "unsure"):
        return True, told
    return re.search(rf"(?<!\w){re.escape(row['value'])}(?!\w)", text, re.IGNORECASE) is not None, told


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the share of threads answered right, by half, outcome and kind."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--failures", action="store_true", help="print what was read wrongly")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this half")
    chosen = parser.parse_args(arguments)
    topics = load_topics()
    for part in chosen.part or PARTS:
        right, count = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for row in (row for row in load_threads() if row["part"] == part):
            ok, told = is_right(row, topics)
            for key in ((row["outcome"], ""), (row["outcome"], row["kind"])):
                count[key] += 1
                right[key] += ok
            if chosen.failures and not ok and part == "development":
                print(f"  {row['id']} {row['kind']}: {row['turns']} told {told}")
        for outcome in OUTCOMES:
            kinds = ", ".join(f"{k} {right[o, k]}/{count[o, k]}" for o, k in count if o == outcome and k)
            print(f"{part}, {outcome}: {right[outcome, '']} of {count[outcome, '']} right ({kinds})")


if __name__ == "__main__":
    main()
