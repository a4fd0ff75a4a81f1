"""The rules that close spans, on the labelled sets about change in time.

    python -m bench.time_rules

bench/time/ was written before the rules. The odd lines of each file are for development, the even lines are held out.
A pair is found if the newer statement closes the older one's span; that is right for `superseded` and `retracted`.
A dialogue is played without a database: its turns and what capture draws from them are stored, and each turn's commands
act on what is stored. It is right if nothing stale is left that was said before, and all that is current stays.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from app.config.loader import load_policies
from app.domain.recall.closing import closes_span
from app.domain.recall.supersession import Statement
from app.domain.reflection.capture import capture_facts
from app.domain.reflection.commands import StoredStatement, read_commands
from bench.stale_pairs import Tally, count_findings

FOLDER: Final = Path(__file__).with_name("time")
LANGUAGES: Final = ("en", "de", "es")
HALVES: Final = ("development", "held out")
MODEL: Final = "all-MiniLM-L6-v2"
"""A model whose policies are read; the rules do not depend on it."""
CLOSED: Final = ("superseded", "retracted")
_START: Final = datetime(2025, 1, 1, tzinfo=UTC)
_LATER: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class DialogueResult:
    """The result of a dialogue. `acted`: a command or statement changed something that was stored before."""

    acted: bool
    stale: tuple[str, ...]
    lost: tuple[str, ...]
    expects_change: bool

    @property
    def is_wrong(self) -> bool:
        """Something current was lost, or a trap removed something, or what was changed is still stale in part."""
        return bool(self.lost) or (self.acted and (not self.expects_change or bool(self.stale)))

    @property
    def is_right(self) -> bool:
        """Nothing stale is left, and nothing current was lost."""
        return not self.is_wrong and not self.stale


def load_lines(kind: str, language: str, half: str) -> list[dict[str, Any]]:
    """Return the lines of one half of a set."""
    lines = (FOLDER / f"{kind}.{language}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[HALVES.index(half) :: 2]]


def closes(older: str, newer: str) -> bool:
    """Tell whether the newer text closes the span of the older one."""
    return closes_span(Statement(older, _START), Statement(newer, _START + _LATER))


def tally_pairs(pairs: Iterable[dict[str, Any]]) -> Tally:
    """Count the closed spans."""
    return count_findings((pair["label"] in CLOSED, closes(pair["older"], pair["newer"])) for pair in pairs)


def play_dialogue(dialogue: dict[str, Any]) -> DialogueResult:
    """Store the turns of a dialogue one after the other, and let each act on what was stored before it."""
    stored: list[StoredStatement] = []
    changed = 0
    for number, turn in enumerate(dialogue["turns"]):
        said = Statement(turn, _START + number * _LATER)
        commands = read_commands(turn)
        chosen = commands.choose_actions(stored, said)
        drawn = list(_draw_statements(said))
        kept = [one for at, one in enumerate(stored) if at not in chosen]
        kept = [one for one in kept if not any(_replaces(new, one) for new in drawn)]
        changed += len(stored) - len(kept)
        stored = [replace(one, from_previous=False) for one in kept]
        stored += [StoredStatement(said, is_turn=True, turn=said.stated_at, from_previous=True), *drawn]
    last = _START + (len(dialogue["turns"]) - 1) * _LATER
    earlier = " ".join(one.statement.text for one in stored if one.statement.stated_at < last)
    everything = " ".join(one.statement.text for one in stored)
    return DialogueResult(
        acted=changed > 0,
        stale=tuple(word for word in dialogue["stale"] if _names(earlier, word)),
        lost=tuple(word for word in dialogue["current"] if not _names(everything, word)),
        expects_change=bool(dialogue["stale"]),
    )


def _draw_statements(said: Statement) -> Iterator[StoredStatement]:
    policies = load_policies(MODEL)
    for fact in capture_facts(said.text, policies.capture, policies.write.text_limits).facts:
        yield StoredStatement(replace(said, text=fact.text), turn=said.stated_at, from_previous=True)


def _replaces(new: StoredStatement, stored: StoredStatement) -> bool:
    return not stored.is_turn and closes_span(stored.statement, new.statement)


def _names(text: str, words: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE) is not None


def describe_dialogues(results: Sequence[DialogueResult]) -> str:
    """Return the counts of dialogues as one line."""
    changes = [result for result in results if result.expects_change]
    traps = [result for result in results if not result.expects_change]
    wrong = sum(result.is_wrong for result in results)
    return (
        f"{sum(r.is_right for r in changes)} of {len(changes)} changes obeyed, "
        f"{sum(r.is_right for r in traps)} of {len(traps)} others left alone, {wrong} wrong"
    )


def main() -> None:
    """Print precision and recall of the pairs, and what became of the dialogues, by language and half."""
    for language in LANGUAGES:
        for half in HALVES:
            pairs = load_lines("pairs", language, half)
            print(f"{language}, {half}, {len(pairs)} pairs: {tally_pairs(pairs)}")
            results = [play_dialogue(one) for one in load_lines("dialogues", language, half)]
            print(f"{language}, {half}, {len(results)} dialogues: {describe_dialogues(results)}")


if __name__ == "__main__":
    main()
