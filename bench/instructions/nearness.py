"""The fit of how near a question is to an instruction with a condition.

`applying.jsonl` has instructions with two questions that each applies to, and questions that none applies to. For all
other instructions, a question is about something else. The limit lets FAR of those pass.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml
from numpy.typing import NDArray

from app.bootstrap.adapters import embedder_settings
from app.config.settings import Settings
from app.domain.memory.memory import MemoryType
from app.domain.memory.presentation import embedded_text
from app.domain.recall.instructions import FoundInstruction, NearnessModel
from app.domain.recall.late_interaction import max_sim
from app.domain.recall.relevance import Spread
from app.providers.embeddings import build_embedder
from app.storage.identity import new_id

CORPUS: Final = Path(__file__).parent / "applying.jsonl"
MODELS: Final = Path(__file__).parents[2] / "config" / "models"
FAR: Final = 0.03
"""The share of the questions about something else that an instruction may come with."""
Scores = NDArray[np.float64]


async def fit_model(name: str, *, write: bool) -> None:
    """Fit the nearness of a model, print it with its figures, and write its file if wanted."""
    rows = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    scores, own = await _score_pairs(name, rows)
    model = fit_nearness(scores[~own])
    nearness = np.array([_measure(model, *pair) for pair in scores])
    print(f"{name}: {own.sum()} questions of an instruction, {(~own).sum()} of another or of none")
    shares = [float(np.mean(nearness[which] >= model.least)) for which in (own, ~own)]
    print(f"applies to {shares[0]:.3f} of its own and to {shares[1]:.3f} of the others")
    body = {
        "dense": {"mean": model.dense.mean, "deviation": model.dense.deviation},
        "words": {"mean": model.words.mean, "deviation": model.words.deviation},
        "least": model.least,
    }
    text = yaml.safe_dump(body, sort_keys=False)
    print(text, end="")
    if write:
        head = f"# Nearness of questions to instructions, by `python -m bench.instructions --fit {name} --write`.\n"
        (MODELS / f"{name}.instructions.yaml").write_text(head + text, encoding="utf-8")


def fit_nearness(far: Scores) -> NearnessModel:
    """Return the model of some scores of questions about something else, shape (pairs, 2): cosine and match."""
    spreads = [Spread(round(float(column.mean()), 3), round(float(column.std()), 3)) for column in far.T]
    model = NearnessModel(*spreads, least=0.0)
    least = np.quantile([_measure(model, *pair) for pair in far], 1 - FAR)
    return replace(model, least=round(float(least), 2))


def _measure(model: NearnessModel, similarity: float, match: float) -> float:
    return model.measure(FoundInstruction(new_id(), "", datetime.now(UTC), similarity=similarity), match) or 0.0


async def _score_pairs(name: str, rows: Sequence[dict[str, Any]]) -> tuple[Scores, NDArray[np.bool_]]:
    """Return cosine and match of each pair, and whether the question is the instruction's own."""
    embedder = build_embedder(replace(embedder_settings(Settings()), model=name))
    told = [(at, row["instruction"]) for at, row in enumerate(rows) if row["instruction"]]
    stored = await embedder.encode_texts([embedded_text(MemoryType.turn, text, None, None) for _, text in told])
    scores: list[tuple[float, float]] = []
    own: list[bool] = []
    for at, row in enumerate(rows):
        for question in row["questions"]:
            asked = await embedder.encode_query(question)
            matches = max_sim(asked.tokens or b"", [one.tokens for one in stored])
            for (place, _), one, match in zip(told, stored, matches, strict=True):
                scores.append((float(np.dot(asked.vector, one.vector)), match or 0.0))
                own.append(place == at)
    await embedder.close()
    return np.array(scores), np.array(own)
