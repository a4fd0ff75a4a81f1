"""Selection: which scored candidates are answered, and why the others are dropped."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeVar
from uuid import UUID

import numpy as np

from app.domain import english
from app.domain.memory.memory import MemoryType
from app.domain.recall.candidates import Candidate
from app.domain.recall.late_interaction import DIMENSION, max_sim, tail_match
from app.domain.recall.profiles import RankingProfile, RankingQuery
from app.domain.recall.scoring import ScoredCandidate, candidate_relevance
from app.domain.text_rules import comparable_text, text_key

T = TypeVar("T")
DropReason = Literal[
    "threshold", "score_threshold", "rag_length", "rank", "diversity", "relevance", "question", "duplicate"
]


_EN: Final = english.patterns("recall", "repeats")
SAME_TEXT: Final = 0.98
"""The cosine from which on a turn has the text of the query."""
REPEATED_WORDS: Final = 0.85
REPEATED_MATTER: Final = 0.75
"""A turn that ends in a question ends in the query from this match of its last words and this cosine on.

The words are compared in their order, so "Where do I live? In Ghent, right?" is no repeat. Late interaction has one or
two words of a short English question with all-MiniLM-L6-v2, so the cosine counts too: "Your flight is on Friday at 9.
Shall I check the flight?" answers "When is my flight?", and its cosine is 0.74.
"""
DOUBTFUL_WORDS: Final = 0.8
DOUBTFUL_LENGTH: Final = 2
"""A turn may have the text of the query from this match of its words on, if it has about as many.

"wo schläft der hund" matches "Wo schläft der Hund?" by 0.84 with multilingual-e5-small.
"""
ADDED_WORDS: Final = {False: 2, True: 24}
"""The most words before the query, in a turn of the user and of the assistant.

"I am not sure. You asked: Where do I live?" answers nothing. A user may test the memory: "I moved to Ghent last week.
Where do I live?"
"""


_BREAKS: Final = (":", ".", "!", "?", "。", "：", "！", "？", "،", "؟", "।")
_QUOTES: Final = "\"'“”„‟«»「」『』"


class DroppedCandidate(NamedTuple):
    """A candidate that is not in the answer, with the reason."""

    scored: ScoredCandidate
    reason: DropReason


def set_aside_repeats(candidates: Sequence[Candidate], query: RankingQuery) -> tuple[list[Candidate], list[Candidate]]:
    """Return the other candidates, and the turns that only ask the query again or repeat it at the end of an answer.

    They answer nothing, and they match better than any answer. So they must be gone before scores are standardised.
    A turn with a place in its thread stays: it leads to the turn beside it, which may hold the answer.
    """
    repeats = {c.id for c in candidates if is_loose_turn(c) and _repeats(c, query.tokens or b"")}
    if not repeats:
        return list(candidates), []
    return [c for c in candidates if c.id not in repeats], [c for c in candidates if c.id in repeats]


def _repeats(turn: Candidate, words: bytes) -> bool:
    similarity = turn.similarity or 0.0
    if similarity >= SAME_TEXT or not turn.asks or similarity < REPEATED_MATTER:
        return similarity >= SAME_TEXT
    return _ends_alike(turn, words)


def _ends_alike(turn: Candidate, words: bytes) -> bool:
    longest = len(words) + ADDED_WORDS[turn.assistant] * DIMENSION
    return len(turn.tokens or b"") <= longest and tail_match(words, turn.tokens) >= REPEATED_WORDS


def find_doubtful(candidates: Sequence[Candidate], query: RankingQuery) -> list[Candidate]:
    """Return the turns without a place that may have the text of the query, but for its case and question mark.

    Also the assistant's turns that may end in it. Only their texts can tell (`says_again`): "My dog is called Rex." has
    the words of "Is my dog called Rex?", and a model that embeds a query in another way than a text gives equal texts a
    cosine below that of other ones.
    """
    words = query.tokens or b""
    loose = [c for c in candidates if is_loose_turn(c) and not c.asks and (c.similarity or 0.0) >= REPEATED_MATTER]
    near = [c for c in loose if abs(len(c.tokens or b"") - len(words)) <= DOUBTFUL_LENGTH * DIMENSION]
    matches = max_sim(words, [c.tokens for c in near]) if near else []
    equal = {c.id for c, match in zip(near, matches, strict=True) if match is not None and match >= DOUBTFUL_WORDS}
    return [c for c in loose if c.id in equal or (c.assistant and _ends_alike(c, words))]


def says_again(text: str, question: str, *, assistant: bool) -> bool:
    """Tell whether a turn is the question, or as the assistant's ends in it behind a break: "You asked: …".

    "Rex is your dog's name." is no repeat of "your dog's name".
    """
    said = comparable_text(text.rstrip(_QUOTES))
    asked = comparable_text(question)
    if said == asked:
        return True
    before = said.removesuffix(asked).rstrip(_QUOTES + " ")
    return assistant and said.endswith(asked) and before.endswith(_BREAKS)


def asks_about_times(question: str) -> bool:
    """Tell whether an English question asks when or how often something was said."""
    return _EN.of_times.search(question) is not None


def find_alike(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Return the groups of turns without a place that may be equal: with one speaker, one cosine and the same words.

    Only their texts can tell (`find_copies`), because a model has one vector for all words that it does not know.
    """
    groups: dict[tuple[object, ...], list[Candidate]] = {}
    for c in candidates:
        if c.tokens and is_loose_turn(c):
            key = c.tokens, c.assistant, c.actor_id, None if c.similarity is None else round(c.similarity, 4)
            groups.setdefault(key, []).append(c)
    return [group for group in groups.values() if len(group) > 1]


def find_copies(
    groups: Iterable[Sequence[Candidate]], texts: Mapping[UUID, str], thread_id: str | None = None
) -> set[UUID]:
    """Return the turns of the groups that are copies of another one in their group, by their texts.

    A pinned turn is no copy, else one of the thread `thread_id`, else the newest.
    """
    copies: set[UUID] = set()
    for group in groups:
        equal: dict[bytes, list[Candidate]] = {}
        for c in group:
            if c.id in texts:
                equal.setdefault(text_key(texts[c.id]), []).append(c)
        for same in equal.values():
            kept = max(same, key=lambda c: (c.pinned, c.thread_id == thread_id, c.created_at, c.id))
            copies.update(c.id for c in same if c is not kept and not c.pinned)
    return copies


def is_loose_turn(candidate: Candidate) -> bool:
    """Tell whether a candidate is a turn without a place in its thread, such as one of a chat."""
    return candidate.type == MemoryType.turn and candidate.seq is None


def keep_similar(
    scored: Sequence[ScoredCandidate], threshold: float | None
) -> tuple[list[ScoredCandidate], list[DroppedCandidate]]:
    """Split by the request's `threshold` on cosine similarity. A candidate without a similarity is kept."""
    if threshold is None:
        return list(scored), []
    kept = []
    dropped = []
    for s in scored:
        similarity = s.candidate.similarity
        low = similarity is not None and similarity < threshold
        dropped.append(DroppedCandidate(s, "threshold")) if low else kept.append(s)
    return kept, dropped


def keep_reranked(
    scored: Sequence[ScoredCandidate], profile: RankingProfile
) -> tuple[list[ScoredCandidate], list[DroppedCandidate]]:
    """Split by whether the reranker has read the candidate; unread ones are beyond the pool.

    Only the sigmoid fusion drops unread candidates, and only if the reranker read some.
    """
    if profile.fusion != "sigmoid" or all(s.candidate.rerank is None for s in scored):
        return list(scored), []
    kept = [s for s in scored if s.candidate.rerank is not None]
    return kept, [DroppedCandidate(s, "rank") for s in scored if s.candidate.rerank is None]


def keep_relevant(
    scored: Sequence[ScoredCandidate], profile: RankingProfile
) -> tuple[list[ScoredCandidate], list[DroppedCandidate]]:
    """Split by the profile's `score_threshold` on relevance."""
    if profile.score_threshold is None:
        return list(scored), []
    kept = []
    dropped = []
    for s in scored:
        low = candidate_relevance(s.candidate, profile) < profile.score_threshold
        dropped.append(DroppedCandidate(s, "score_threshold")) if low else kept.append(s)
    return kept, dropped


def cap_categories(
    scored: Sequence[ScoredCandidate], lengths: dict[str, int]
) -> tuple[list[ScoredCandidate], list[DroppedCandidate]]:
    """Keep the best candidates of each category, at most `lengths[category]` (its `rag_length`)."""
    kept: list[ScoredCandidate] = []
    dropped: list[DroppedCandidate] = []
    taken: dict[str, int] = {}
    for s in scored:
        category = s.candidate.category
        before = taken.get(category, 0)
        if before >= lengths.get(category, len(scored)):
            dropped.append(DroppedCandidate(s, "rag_length"))
            continue
        taken[category] = before + 1
        kept.append(s)
    return kept, dropped


def select_best(
    scored: Sequence[ScoredCandidate], top_k: int, profile: RankingProfile
) -> tuple[list[ScoredCandidate], list[DroppedCandidate]]:
    """Choose `top_k` candidates: the best in order, or by maximal marginal relevance if `mmr_lambda` is below 1."""
    if profile.mmr_lambda >= 1.0:
        return list(scored[:top_k]), [DroppedCandidate(s, "rank") for s in scored[top_k:]]
    pool = scored[: profile.pool * top_k]
    rest = scored[profile.pool * top_k :]
    places = _diverse_places(pool, top_k, profile.mmr_lambda)
    taken = set(places)
    left = [
        DroppedCandidate(s, "diversity" if place < top_k else "rank")
        for place, s in enumerate(pool)
        if place not in taken
    ]
    return [pool[place] for place in places], left + [DroppedCandidate(s, "rank") for s in rest]


def _diverse_places(pool: Sequence[ScoredCandidate], wanted: int, weight: float) -> list[int]:
    """Return the places of `wanted` candidates in the order in which maximal marginal relevance chooses them.

    The redundancy of a candidate is its highest cosine to those chosen. A candidate without a vector has none.
    """
    count = min(wanted, len(pool))
    totals = weight * np.array([s.total for s in pool], np.float64)
    known = [place for place, s in enumerate(pool) if s.candidate.embedding is not None]
    vectors = np.array([pool[place].candidate.embedding for place in known], np.float32)
    row_of = {place: row for row, place in enumerate(known)}
    redundancy = np.full(len(known), -np.inf)
    chosen: list[int] = []
    for _ in range(count):
        values = totals.copy()
        values[known] -= (1 - weight) * np.where(np.isinf(redundancy), 0.0, redundancy)
        values[chosen] = -np.inf
        chosen.append(int(np.argmax(values)))
        if (row := row_of.get(chosen[-1])) is not None:
            redundancy = np.maximum(redundancy, vectors @ vectors[row])
    return chosen


def merge_ordered(some: Sequence[T], others: Sequence[T], worth: Callable[[T], float]) -> list[T]:
    """Return both sequences as one. Each keeps its order; of two next items the one with more worth comes first."""
    result: list[T] = []
    at = 0
    for item in some:
        while at < len(others) and worth(others[at]) > worth(item):
            result.append(others[at])
            at += 1
        result.append(item)
    return [*result, *others[at:]]
