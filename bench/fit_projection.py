"""Fit the projection of the token vectors of multilingual-e5-small.

    python -m bench.fit_projection [--write]

A PCA of the vectors of all tokens of bench/sentences: plain sentences about everyday life in thirteen languages,
written for this. Without `--write` it only tells the share of the variance that is kept. A new projection makes the
stored tokens of every installation worthless, so it needs another name of the model.
"""

import argparse
import base64
import json
import sys
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.domain.recall.late_interaction import DIMENSION as KEPT
from app.domain.recall.late_interaction import TokenProjection, hashed_projection
from app.embedded.home import Home
from app.providers.embeddings.e5 import PROJECTION, E5Small
from app.providers.embeddings.local import LoadedModel
from app.providers.embeddings.local_model import DIMENSION as WIDTH

SENTENCES: Final = Path(__file__).parent / "sentences"
CODES: Final = 127


class _WithoutProjection(E5Small):
    """The model before its projection is fitted."""

    def token_projection(self) -> TokenProjection:
        """Return any projection: the vectors are read before it."""
        return hashed_projection(WIDTH)


def read_sentences() -> list[str]:
    """Return the sentences of all languages."""
    return [line for file in sorted(SENTENCES.glob("*.txt")) for line in file.read_text(encoding="utf-8").splitlines()]


def embed_tokens(sentences: list[str]) -> NDArray[np.float64]:
    """Return the unit vectors of the content tokens of all sentences, shape (tokens, width)."""
    cache_dir = Home().path / "models"
    model = LoadedModel(_WithoutProjection(cache_dir), cache_dir, "int8")
    rows = []
    for sentence in sentences:
        written = [model.text_form.write(sentence)]
        rows.append(model.token_vectors(model.tokenise_texts(written))[0])
    vectors = np.concatenate(rows).astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def fit_projection(vectors: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return the columns of the projection, shape (width, KEPT), its offset, and the share of variance kept."""
    mean = vectors.mean(axis=0)
    values, axes = np.linalg.eigh(np.cov((vectors - mean).T))
    largest = np.argsort(-values)[:KEPT]
    columns = axes[:, largest]
    return columns, mean @ columns, float(values[largest].sum() / values.sum())


def write_projection(columns: NDArray[np.float64], offset: NDArray[np.float64]) -> None:
    """Write the file that the model reads: int8 codes with one scale a column."""
    scale = np.abs(columns).max(axis=0) / CODES
    codes = np.rint(columns / scale).astype(np.int8)
    stored = {
        "fitted_by": "python -m bench.fit_projection --write",
        "scale": [float(f"{value:.6g}") for value in scale],
        "offset": [float(f"{value:.6g}") for value in offset],
        "codes": [base64.b64encode(row.tobytes()).decode() for row in codes],
    }
    PROJECTION.write_text(json.dumps(stored, indent=0) + "\n", encoding="utf-8")


def main() -> None:
    """Fit, and write if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {PROJECTION.name}")
    arguments = parser.parse_args()
    sentences = read_sentences()
    vectors = embed_tokens(sentences)
    columns, offset, kept = fit_projection(vectors)
    assert columns.shape == (WIDTH, KEPT)
    sys.stdout.write(f"{len(sentences)} sentences, {len(vectors)} tokens, {kept:.3f} of the variance kept\n")
    if arguments.write:
        write_projection(columns, offset)


if __name__ == "__main__":
    main()
