"""Calibration of the relevance by which chat chooses, for each reranker (`docs/benchmarks.md`, Relevance).

    python -m bench.calibrate_rerankers [--model multilingual-e5-small] [--write]

Fits logistic regressions of the cosine and the match of words. Turns come from the development people of
bench/first_person, each with half of their questions asked before, and answers that repeat them. Facts come from the
stored facts there and from the realistic user `development`; for a multilingual model also from the development part
of bench/languages, each language asked about its own memories and about the English ones. Each corpus counts the same,
and in each as much what helps as what does not. The pool of a question has the 15 nearest items, as in chat.
"""

import argparse
import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

from app.config.yaml_files import CONFIG_DIR
from app.domain.memory.memory import MemoryType
from app.domain.recall.late_interaction import max_sim
from app.embedded.home import Home
from app.ports import Embedder, Embedding
from app.providers.embeddings.local import LocalEmbedder
from app.providers.embeddings.minilm import NAME as MINILM
from bench.first_person import Person, load_people
from bench.languages import DEVELOPMENT, ENGLISH, Corpus, known_languages
from bench.memory import REPLY
from bench.realistic_users import load_user

POOL: Final = 15
RIDGE: Final = 1.0
STEPS: Final = 60
SIGNALS: Final = {"none": ("similarity", "asks"), "late_interaction": ("similarity", "late", "asks")}
CORPORA: Final = {"turns": ("talks",), "facts": ("stored", "realistic", "languages")}
HEAD: Final = (
    "# Relevance of chat's profile by reranker, for this embedding model, by"
    " `python -m bench.calibrate_rerankers --write`.\n"
    "# A cross-encoder's logit has its own, if any. 0.35 is the least relevance of a memory in config/policies.yaml.\n"
)


class Sample(NamedTuple):
    """An item of a question's pool, with its signals."""

    corpus: str
    helps: bool
    similarity: float
    late: float
    asks: float


class Item(NamedTuple):
    """A stored text; `asks`: it ends in a question."""

    text: str
    asks: bool
    embedding: Embedding


async def embed_items(embedder: Embedder, texts: Sequence[str], *, turns: bool) -> list[Item]:
    """Return the texts with their embeddings."""
    found = await embedder.encode_texts(texts)
    return [Item(text, turns and text.endswith("?"), one) for text, one in zip(texts, found, strict=True)]


async def sample_pool(
    embedder: Embedder, corpus: str, question: str, items: Sequence[Item], helps: Sequence[bool]
) -> list[Sample]:
    """Return the samples of one question."""
    asked = await embedder.encode_query(question)
    similarity = [float(asked.vector @ item.embedding.vector) for item in items]
    late = max_sim(asked.tokens or b"", [item.embedding.tokens for item in items])
    nearest = sorted(range(len(items)), key=lambda at: -similarity[at])[:POOL]
    return [Sample(corpus, helps[at], similarity[at], late[at] or 0.0, float(items[at].asks)) for at in nearest]


async def sample_talks(embedder: Embedder, person: Person) -> list[Sample]:
    """Return the samples of every second question. The others were asked before, and their answers repeat them."""
    asked = [text for question in person.questions[::2] for text in (question.text, REPLY + question.text)]
    items = await embed_items(embedder, [*(turn.text for turn in person.turns), *asked], turns=True)
    samples = []
    for question in person.questions[1::2]:
        helps = [
            (turn.conversation, turn.at) in question.evidence
            or (turn.role == "user" and any(answer in turn.text.lower() for answer in question.answer))
            for turn in person.turns
        ]
        samples += await sample_pool(embedder, "talks", question.text, items, helps + [False] * len(asked))
    return samples


async def sample_stored(embedder: Embedder, person: Person) -> list[Sample]:
    """Return the samples of the stored facts."""
    items = await embed_items(embedder, [text for _, text in person.facts], turns=False)
    samples = []
    for question in person.questions:
        helps = [any(answer in item.text.lower() for answer in question.answer) for item in items]
        samples += await sample_pool(embedder, "stored", question.text, items, helps)
    return samples


async def sample_realistic(embedder: Embedder) -> list[Sample]:
    """Return the samples of the realistic user, without memories that are stale for a question."""
    user = load_user("development")
    keys = [key for key, memory in user.memories.items() if memory.type is not MemoryType.turn]
    items = await embed_items(embedder, [user.memories[key].text for key in keys], turns=False)
    samples = []
    for question in user.questions:
        kept = [
            (item, key in question.relevant) for item, key in zip(items, keys, strict=True) if key not in question.stale
        ]
        pool, helps = [item for item, _ in kept], [right for _, right in kept]
        samples += await sample_pool(embedder, "realistic", question.ask, pool, helps)
    return samples


async def sample_languages(embedder: Embedder) -> list[Sample]:
    """Return the samples of nine languages: questions about memories in the same language, and in English."""
    english = Corpus(DEVELOPMENT, ENGLISH)
    samples = []
    for language in known_languages():
        corpus = Corpus(DEVELOPMENT, language)
        for memories in [corpus.memories, *([] if language == ENGLISH else [english.memories])]:
            items = await embed_items(embedder, list(memories.values()), turns=False)
            for question in corpus.questions:
                if question.answer is not None:
                    helps = [key == question.answer for key in memories]
                    samples += await sample_pool(embedder, "languages", question.text, items, helps)
    return samples


async def collect_samples(model: str) -> list[Sample]:
    """Return the samples of all corpora."""
    embedder = LocalEmbedder(Home().path / "models", 1, 100, name=model)
    samples = await sample_realistic(embedder)
    for person in load_people(["development", "stored"]):
        samples += await (sample_talks if person.turns else sample_stored)(embedder, person)
    if model != MINILM:
        samples += await sample_languages(embedder)
    await embedder.close()
    return samples


def fit_balanced(signals: NDArray[np.float64], samples: Sequence[Sample]) -> NDArray[np.float64]:
    """Return intercept and coefficients, by Newton's method with a small ridge penalty on standardised signals."""
    classes = [(sample.corpus, sample.helps) for sample in samples]
    weights = np.array([1 / classes.count(one) for one in classes])
    weights *= len(samples) / weights.sum()
    labels = np.array([sample.helps for sample in samples], np.float64)
    mean, deviation = signals.mean(axis=0), signals.std(axis=0)
    deviation[deviation < 1e-9] = 1.0
    rows = np.column_stack([np.ones(len(signals)), (signals - mean) / deviation])
    penalty = RIDGE * np.diag([0.0, *np.ones(signals.shape[1])])
    found = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        told = 0.5 + 0.5 * np.tanh(rows @ found / 2)
        slope = rows.T @ (weights * (labels - told)) - penalty @ found
        curve = rows.T @ (rows * (weights * told * (1 - told))[:, None]) + penalty
        found += np.linalg.solve(curve, slope)
    coefficients = found[1:] / deviation
    result: NDArray[np.float64] = np.array([found[0] - coefficients @ mean, *coefficients])
    return result


def fit_rerankers(samples: Sequence[Sample]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the regressions of each reranker, as in the file."""
    model: dict[str, dict[str, dict[str, float]]] = {}
    for reranker, names in SIGNALS.items():
        for part, corpora in CORPORA.items():
            used = [sample for sample in samples if sample.corpus in corpora]
            signals = np.array([[getattr(sample, name) for name in names] for sample in used], np.float64)
            found = fit_balanced(signals, used)
            values = zip(("intercept", *names), found.tolist(), strict=True)
            fitted = {name: round(value, 3) for name, value in values}
            model.setdefault(reranker, {})[part] = {name: value for name, value in fitted.items() if value}
    return model


def main() -> None:
    """Print the calibration; with --write also store it."""
    parser = argparse.ArgumentParser(prog="python -m bench.calibrate_rerankers", description="Calibrate chat.")
    parser.add_argument("--model", default=MINILM, help="a local model")
    parser.add_argument("--write", action="store_true", help="write the file of the model")
    options = parser.parse_args()
    text = HEAD + yaml.safe_dump(fit_rerankers(asyncio.run(collect_samples(options.model))), sort_keys=False)
    print(text)
    if options.write:
        (CONFIG_DIR / "models" / f"{options.model}.rerankers.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
