"""The pairs that a model is asked about, and its verdict "same" that a veto undoes, on labelled pairs.

    python -m bench.same_fact_pairs

bench/same_fact_pairs.jsonl was written for this project and labelled before the rule: `same` says that both sentences
say one fact. A pair that is one fact should be asked about, and no veto should undo the model's "same". A veto on the
other pairs guards against a model that says "same" to everything; the rest of them hang on the model.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from app.domain.memory.merge_bands import MergeBands
from app.domain.memory.veto import find_veto
from app.ports import Embedding
from app.providers.embeddings.local import LocalEmbedder

PAIRS_FILE: Final = Path(__file__).with_suffix(".jsonl")
CACHE_DIR: Final = Path.home() / ".cache" / "mnema" / "models"
PARTS: Final = ("development", "held-out")


def load_pairs(part: str) -> list[Mapping[str, Any]]:
    """Return the labelled pairs of a part."""
    pairs = [json.loads(line) for line in PAIRS_FILE.read_text(encoding="utf-8").splitlines()]
    return [pair for pair in pairs if pair["part"] == part]


def is_joined(pair: Mapping[str, Any]) -> bool:
    """Tell whether a model's "same" joins the pair."""
    return find_veto(pair["a"], pair["b"], "same", numeric_update=False) is None


async def _embed(texts: Sequence[str]) -> dict[str, Embedding]:
    embedder = LocalEmbedder(cache_dir=CACHE_DIR)
    try:
        return dict(zip(texts, await embedder.encode_texts(texts), strict=True))
    finally:
        await embedder.close()


def _cosine(left: Embedding, right: Embedding) -> float:
    return float(sum(a * b for a, b in zip(left.vector, right.vector, strict=True)))


def main() -> None:
    """Print the counts of each part."""
    bands = MergeBands()
    for part in PARTS:
        pairs = load_pairs(part)
        embeddings = asyncio.run(_embed(sorted({pair[side] for pair in pairs for side in "ab"})))
        same = [pair for pair in pairs if pair["same"]]
        other = [pair for pair in pairs if not pair["same"]]
        near = sum(_cosine(embeddings[pair["a"]], embeddings[pair["b"]]) >= bands.check_low for pair in same)
        joined = sum(map(is_joined, same))
        kept = sum(not is_joined(pair) for pair in other)
        print(
            f"{part}: of {len(same)} pairs of one fact {near} are asked after a write, {joined} may be joined; "
            f"a veto keeps {kept} of {len(other)} others apart"
        )


if __name__ == "__main__":
    main()
