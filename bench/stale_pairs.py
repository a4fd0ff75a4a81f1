"""The rule for replaced statements on labelled pairs, and on all pairs of memories of the realistic users.

    python -m bench.stale_pairs

bench/stale_pairs.jsonl was written for this project and labelled before the rule: `superseded` says that the newer
statement replaces the value of the older one. The rule was written with the half `development`; `held_out` is only
measured. Among all pairs of a user's memories a right one is a pair that bench/realistic_users/ links by `replaces`.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from app.domain.memory.presentation import embedded_text
from app.domain.recall.supersession import Statement, is_superseded
from app.ports import Embedding
from app.providers.embeddings.local import LocalEmbedder
from bench.realistic_users import USERS, RealisticUser, load_user

PAIRS_FILE: Final = Path(__file__).with_suffix(".jsonl")
CACHE_DIR: Final = Path.home() / ".cache" / "mnema" / "models"
PARTS: Final = ("development", "held_out")
_EARLIER: Final = datetime(2025, 1, 1, tzinfo=UTC)
_LATER: Final = _EARLIER + timedelta(days=30)
_CHUNK: Final = 32


@dataclass(frozen=True, slots=True)
class Pair:
    """An older and a newer statement, and the label that says if the newer one replaces the older one's value."""

    older: str
    newer: str
    superseded: bool
    kind: str
    part: str


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of right and wrong findings and of missed pairs."""

    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float:
        """The share of the findings that are right."""
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """The share of the replaced statements that were found."""
        return self.right / max(1, self.right + self.missed)

    def __str__(self) -> str:
        counts = f"{self.right} right, {self.wrong} wrong, {self.missed} missed"
        return f"precision {self.precision:.3f}, recall {self.recall:.3f} ({counts})"


def load_pairs(path: Path = PAIRS_FILE) -> list[Pair]:
    """Return the labelled pairs."""
    return [Pair(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def count_findings(expected: Iterable[tuple[bool, bool]]) -> Tally:
    """Count pairs of (label, finding)."""
    counts = {(True, True): 0, (False, True): 0, (True, False): 0, (False, False): 0}
    for one in expected:
        counts[one] += 1
    return Tally(counts[True, True], counts[False, True], counts[True, False])


async def _embed(texts: Sequence[str]) -> dict[str, Embedding]:
    embedder = LocalEmbedder(cache_dir=CACHE_DIR)
    try:
        chunks = [await embedder.encode_texts(texts[at : at + _CHUNK]) for at in range(0, len(texts), _CHUNK)]
    finally:
        await embedder.close()
    return dict(zip(texts, (e for chunk in chunks for e in chunk), strict=True))


def is_found(pair: Pair, embeddings: dict[str, Embedding]) -> bool:
    """Tell whether the rule finds the older statement replaced."""
    older, newer = embeddings.get(pair.older), embeddings.get(pair.newer)
    return is_superseded(
        Statement(pair.older, _EARLIER, tokens=older.tokens if older else None),
        Statement(pair.newer, _LATER, tokens=newer.tokens if newer else None),
    )


def measure_user(user: RealisticUser, embeddings: dict[str, Embedding]) -> tuple[Tally, list[tuple[str, str]]]:
    """Apply the rule to all pairs of a user's memories. Return the tally and the wrong pairs."""
    said = {}
    for key, memory in user.memories.items():
        text = embedded_text(memory.type, memory.text, memory.actor_id, memory.source)
        assert memory.created_at is not None
        said[key] = Statement(memory.text, memory.created_at, memory.actor_id, embeddings[text].tokens)
    found = {(a, b) for a, older in said.items() for b, newer in said.items() if is_superseded(older, newer)}
    labelled = {(old, new) for new, old in user.replaced.items()}
    wrong = sorted(found - labelled)
    return Tally(len(found & labelled), len(wrong), len(labelled - found)), wrong


def main() -> None:
    """Print precision and recall of the pairs by part, and of each user's memories."""
    pairs = load_pairs()
    users = [load_user(name) for name in USERS]
    texts = {text for pair in pairs for text in (pair.older, pair.newer)}
    texts |= {embedded_text(m.type, m.text, m.actor_id, m.source) for user in users for m in user.memories.values()}
    embeddings = asyncio.run(_embed(sorted(texts)))
    for part in PARTS:
        print(f"{part}: {count_findings((p.superseded, is_found(p, embeddings)) for p in pairs if p.part == part)}")
    for user in users:
        tally, wrong = measure_user(user, embeddings)
        print(f"all pairs of {len(user.memories)} memories, user {user.name}: {tally}")
        for older, newer in wrong:
            print(f"  wrong: {user.memories[older].text} | {user.memories[newer].text}")


if __name__ == "__main__":
    main()
