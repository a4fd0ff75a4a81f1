"""Precision and recall of the fact rules on labelled messages, and their answers to labelled questions.

    python -m bench.fact_rules               prints the figures of both halves
    python -m bench.fact_rules --groups      also prints the figures of each group of messages and questions
    python -m bench.fact_rules --failures    also prints the messages and questions that were read wrongly

bench/facts/ has two halves, written by different people from the same rules, before the code was there, and two halves
with natural forms (`natural_…`), by a third person who had not read the rules.
The rules were developed on the halves named `development` alone. A message says what is stored before and after it. A
question says which facts are stored in which threads, and either the values that answer it by topic, or that it is no
question for facts ("search"). The operations apply here to a model in memory, so the figures need no database.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from app.domain.facts.fact import Entry, FactOperation, QuestionPart
from app.domain.facts.reading import parse_question, read_stated
from app.domain.facts.topics import FactTopics

FOLDER: Final = Path(__file__).with_name("facts")
TOPICS_FILE: Final = Path(__file__).parents[1] / "config" / "facts.yaml"
PARTS: Final = ("development", "held_out", "natural_development", "natural_held_out")
MAX_RANK: Final = 10
SEARCH: Final = "search"

Ranked = dict[int | None, str]
"""The values of a topic by rank; the rank of a single value is None."""
Thread = dict[str, Ranked]
"""The topics of a thread, in the order in which they were last stated."""
Triple = tuple[str, int | None, str | None]
"""A topic, a rank and the value that is there afterwards (None: it was removed)."""


@dataclass(slots=True)
class Figures:
    """The figures of one half."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    look_alikes: int = 0
    answers: dict[str, list[bool]] = field(default_factory=dict)
    bleed: int = 0
    groups: dict[str, list[int]] = field(default_factory=dict)
    """Right, wrong and missed changes of each group of messages."""
    failures: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """The share of changes made that are right; 1 without any."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """The share of labelled changes that were made; 1 without any."""
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0

    def answers_right(self, *, search: bool | None = None) -> float:
        """Return the share of questions answered right: all, those for search, or the others."""
        chosen = [
            ok for group, rows in self.answers.items() for ok in rows if search is None or search == (group == SEARCH)
        ]
        return sum(chosen) / len(chosen) if chosen else 1.0


def load_topics() -> FactTopics:
    """Return the shipped topics."""
    table = yaml.safe_load(TOPICS_FILE.read_text())["topics"]
    return FactTopics({key: tuple(nouns) for key, nouns in table.items()})


def load_rows(part: str, kind: str) -> list[dict[str, Any]]:
    """Return the labelled `messages` or `questions` of a half."""
    return [json.loads(line) for line in (FOLDER / f"{part}_{kind}.jsonl").read_text().splitlines()]


def read_thread(labelled: Mapping[str, Any]) -> Thread:
    """Return the topics of a labelled thread."""
    return {topic: _read_values(values) for topic, values in labelled.items()}


def _read_values(values: str | Sequence[str] | Mapping[str, str]) -> Ranked:
    if isinstance(values, str):
        return {None: values}
    if isinstance(values, Mapping):
        return {int(rank): value for rank, value in values.items()}
    return dict(enumerate(values, 1))


def apply_operation(thread: Thread, operation: FactOperation) -> None:
    """Apply an operation to the facts of a thread, as storage does."""
    topic = operation.topic_key or next(reversed(thread), None)
    if topic is None:
        return
    facts = dict(thread.get(topic, {}))
    changed = _changed_facts(facts, operation)
    if operation.op not in {"remove", "swap", "move"}:
        thread.pop(topic, None)  # the topic stated last comes last
    if changed:
        thread[topic] = changed
    else:
        thread.pop(topic, None)


def _changed_facts(facts: Ranked, operation: FactOperation) -> Ranked:
    """Return the facts of a topic after an operation."""
    values = [value for _, value in operation.entries]
    match operation.op:
        case "list":
            return dict(operation.entries)
        case "put":
            return facts | dict(operation.entries)
        case "set":
            ranked = any(rank is not None for rank in facts)
            return facts | {1 if ranked else None: values[0]}
        case "append":
            return _appended(facts, operation.entries)
        case "remove":
            gone = {value.casefold() for value in values}
            if not operation.ranks and not gone:
                return {}
            return {r: v for r, v in facts.items() if r not in operation.ranks and v.casefold() not in gone}
        case "swap":
            one, other = operation.ranks
            both = one in facts and other in facts
            return facts | {one: facts[other], other: facts[one]} if both else facts
        case "insert" | "move":
            return _with_place(facts, operation.entries[0], known=operation.op == "move")
        case "replace":
            return _replaced(facts, operation.entries)


def _with_place(facts: Ranked, entry: Entry, *, known: bool) -> Ranked:
    """Return the facts with a value at a rank. Its old place closes; the values from the rank on move down."""
    ranked = _appended(facts, ())
    place = next((rank for rank, value in ranked.items() if value.casefold() == entry[1].casefold()), None)
    if place is None and known:
        return facts
    others = {
        rank - (place is not None and rank > place): value
        for rank, value in ranked.items()
        if rank is not None and rank != place
    }
    at = entry[0] or max(others, default=0) + 1
    free = next(rank for rank in range(at, at + len(others) + 1) if rank not in others)
    moved: Ranked = {rank + (at <= rank < free): value for rank, value in others.items()}
    return {rank: value for rank, value in (moved | {at: entry[1]}).items() if rank is None or rank <= MAX_RANK}


def _replaced(facts: Ranked, entries: Sequence[Entry]) -> Ranked:
    """Return the facts with the second value at the place of the first."""
    (_, old), (rank, new) = entries
    place = [at for at, value in facts.items() if value.casefold() == old.casefold()]
    if not place:
        return _changed_facts(facts, FactOperation("set", None, ((None, new),))) if rank == 1 else facts
    if new.casefold() in {value.casefold() for value in facts.values()}:
        return {at: value for at, value in facts.items() if at not in place}
    return facts | {place[0]: new}


def _appended(facts: Ranked, entries: Sequence[Entry]) -> Ranked:
    """Return the facts with new values after the highest rank. A single value becomes rank 1."""
    ranked: Ranked = {1 if rank is None else rank: value for rank, value in facts.items()}
    for _, value in entries:
        rank = max((rank for rank in ranked if rank is not None), default=0) + 1
        if rank <= MAX_RANK and value.casefold() not in {old.casefold() for old in ranked.values()}:
            ranked[rank] = value
    return ranked if len(ranked) > len(facts) or not entries else facts


def changes_between(before: Thread, after: Thread) -> set[Triple]:
    """Return what differs: each topic and rank with its new value, or None where a value is gone."""
    return {
        (topic, rank, after.get(topic, {}).get(rank))
        for topic in {*before, *after}
        for rank in {*before.get(topic, {}), *after.get(topic, {})}
        if before.get(topic, {}).get(rank) != after.get(topic, {}).get(rank)
    }


def answer_parts(parts: Sequence[QuestionPart], threads: dict[str, Thread], thread: str) -> dict[str, list[str]] | None:
    """Return the values that answer a question, by topic; None if it falls through to search."""
    if not parts:
        return None
    here = threads.get(thread, {})
    answer: dict[str, dict[int | None, str]] = {}
    for part in parts:
        topic = part.topic_key or next(reversed(here), None)
        if topic is None:
            continue
        others = (threads[name][topic] for name in reversed(threads) if topic in threads[name])
        facts = here[topic] if topic in here else next(others, {})
        answer.setdefault(topic, {}).update(_chosen(facts, part))
    return {topic: [values[rank] for rank in sorted(values, key=lambda r: r or 0)] for topic, values in answer.items()}


def _chosen(facts: Ranked, part: QuestionPart) -> Ranked:
    """Return the facts of a topic that a part of a question asks for."""
    match part.kind:
        case "list":
            return facts
        case "rank":
            return {rank: value for rank, value in facts.items() if rank == part.rank}
        case "slice":
            return {rank: value for rank, value in facts.items() if rank is None or rank <= (part.rank or 0)}
        case "first":
            rank = None if None in facts else 1
            return {rank: facts[rank]} if rank in facts else {}
        case "last":
            return dict(sorted(facts.items(), key=lambda pair: pair[0] or 0)[-1:])


def measure_messages(part: str, topics: FactTopics, figures: Figures) -> None:
    """Count right, wrong and missed changes of a half's messages."""
    for row in load_rows(part, "messages"):
        before = read_thread(row["stored"])
        thread = read_thread(row["stored"])
        operations = read_stated(row["text"], topics, MAX_RANK)
        for operation in operations:
            apply_operation(thread, operation)
        expected, made = changes_between(before, read_thread(row["after"])), changes_between(before, thread)
        counts = len(expected & made), len(made - expected), len(expected - made)
        figures.right += counts[0]
        figures.wrong += counts[1]
        figures.missed += counts[2]
        group = figures.groups.setdefault(row["group"], [0, 0, 0])
        group[:] = [old + new for old, new in zip(group, counts, strict=True)]
        figures.look_alikes += row["group"] == "look_alike" and bool(made)
        if expected != made:
            figures.failures.append(
                f"{row['id']} {row['group']}: {row['text']!r}\n    stored {row['stored']}"
                f"\n    wrong {sorted(made - expected, key=str)}\n    missed {sorted(expected - made, key=str)}"
            )


def measure_questions(part: str, topics: FactTopics, figures: Figures) -> None:
    """Count right answers of a half's questions, and those with a value of another topic."""
    for row in load_rows(part, "questions"):
        threads = {name: read_thread(facts) for name, facts in row["stored"].items()}
        answer = answer_parts(parse_question(row["query"], topics), threads, row["thread"])
        expected = None if row["expect"] == SEARCH else row["expect"]
        figures.answers.setdefault(row["group"], []).append(answer == expected)
        if expected is not None:
            figures.bleed += any(topic not in expected for topic in answer or {})
        if answer != expected:
            figures.failures.append(
                f"{row['id']} {row['group']}: {row['query']!r}\n    answered {answer}\n    expected {row['expect']}"
            )


def measure_part(part: str, topics: FactTopics) -> Figures:
    """Return the figures of a half."""
    figures = Figures()
    measure_messages(part, topics, figures)
    measure_questions(part, topics, figures)
    return figures


def group_lines(figures: Figures) -> list[str]:
    """Return one line of figures for each group."""
    messages = [
        f"messages, {group}: {right} right, {wrong} wrong, {missed} missed"
        for group, (right, wrong, missed) in sorted(figures.groups.items())
    ]
    questions = [
        f"questions, {group}: {sum(rows)} of {len(rows)} right" for group, rows in sorted(figures.answers.items())
    ]
    return messages + questions


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures of each half."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--failures", action="store_true", help="print what was read wrongly")
    parser.add_argument("--groups", action="store_true", help="print the figures of each group")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this half")
    chosen = parser.parse_args(arguments)
    topics = load_topics()
    for part in chosen.part or PARTS:
        figures = measure_part(part, topics)
        print(
            f"{part}: precision {figures.precision:.3f}, recall {figures.recall:.3f}"
            f" ({figures.right} right, {figures.wrong} wrong, {figures.missed} missed),"
            f" look-alikes stored {figures.look_alikes}; answers right {figures.answers_right(search=False):.3f},"
            f" fell through {figures.answers_right(search=True):.3f}, both {figures.answers_right():.3f},"
            f" topic bleed {figures.bleed}"
        )
        for line in group_lines(figures) if chosen.groups else ():
            print(f"  {line}")
        for failure in figures.failures if chosen.failures else ():
            print(f"  {failure}")


if __name__ == "__main__":
    main()
