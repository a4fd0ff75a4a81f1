"""Calibration of the relevance of chunks (`docs/benchmarks.md`, Documents).

    python -m bench.calibrate_documents FOLDER            fits on the development questions, tries it on the others
    python -m bench.calibrate_documents FOLDER --write    also writes the coefficients
    python -m bench.calibrate_documents FOLDER --model all-MiniLM-L6-v2

One logistic regression tells which of the best chunks answers the question, another whether any does. The folder is
that of `mnema bench documents`.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml
from numpy.typing import NDArray

from app.bootstrap.model import DEFAULT_MODEL
from app.config.loader import load_policies
from app.config.yaml_files import CONFIG_DIR
from app.domain.recall.relevance import SIGNALS, Regression, RelevanceModel, estimate_relevance
from bench import documents, throwaway
from bench.documents_questions import HALVES
from bench.evaluation.figures import area_under_roc
from bench.regressions import fit_logistic

CHUNK_SIGNALS: Final = ("rank", "total", "context", "best_similarity")
QUESTION_SIGNALS: Final = ("best_words", "best_similarity")
LIMITS: Final = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)


def fit_documents(model: RelevanceModel, samples: Sequence[documents.Sample]) -> RelevanceModel:
    """Fit both regressions."""
    answered = [s for s in samples if s.answerable]
    chunks = np.concatenate([s.signals for s in answered])
    questions = np.stack([s.signals[0] for s in samples])
    return replace(
        model,
        facts=_fit(CHUNK_SIGNALS, chunks, np.concatenate([s.labels for s in answered])),
        question=_fit(QUESTION_SIGNALS, questions, np.array([s.answerable for s in samples])),
    )


def _fit(names: Sequence[str], signals: NDArray[np.float64], labels: NDArray[np.bool_]) -> Regression:
    chosen = [SIGNALS.index(name) for name in names]
    intercept, found = fit_logistic(signals[:, chosen], labels, np.ones(len(labels)))
    return Regression(intercept, dict(zip(names, found.tolist(), strict=True)))


def try_documents(model: RelevanceModel, samples: Sequence[documents.Sample]) -> str:
    """Return what each limit of the relevance would answer, as text."""
    told = [_relevances_of(model, s.signals) for s in samples]
    area = area_under_roc(np.concatenate(told), np.concatenate([s.labels for s in samples]).astype(bool))
    best = area_under_roc(np.array([r.max() for r in told]), np.array([s.answerable for s in samples]))
    lines = [f"AUROC of a chunk {area:.3f}, of an answerable question {best:.3f}"]
    for least in LIMITS:
        counts = [int((r[: documents.TOP] >= least).sum()) for r in told]
        kept = [
            bool(s.labels[: documents.TOP][r[: documents.TOP] >= least].any())
            for s, r in zip(samples, told, strict=True)
        ]
        of = np.array([s.answerable for s in samples])
        shares = np.array(kept)[of].mean(), np.array(counts)[of].mean()
        noise = (np.array(counts)[~of] == 0).mean(), np.array(counts)[~of].mean()
        lines.append("  from {}: right chunk kept {:.3f}, chunks {:.2f}".format(least, *shares))
        lines.append("       unanswerable: nothing {:.3f}, chunks {:.2f}".format(*noise))
    return "\n".join(lines)


def _relevances_of(model: RelevanceModel, signals: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array(estimate_relevance(model, signals, of_turns=False)[0], np.float64)


def render_documents(model: RelevanceModel) -> str:
    """Return the text of the model's file."""
    spreads = {name: getattr(model, name) for name in ("dense", "lexical", "late", "context", "top_words")}
    values: dict[str, Any] = {"profiles": list(model.profiles), "prior": model.prior}
    values |= {name: {"mean": spread.mean, "deviation": spread.deviation} for name, spread in spreads.items()}
    for name, fitted in (("facts", model.facts), ("question", model.question)):
        rounded = {signal: round(value, 4) for signal, value in fitted.coefficients.items()}
        values[name] = {"intercept": round(fitted.intercept, 4), "coefficients": rounded}
    head = "# Relevance of chunks for this embedding model, by `python -m bench.calibrate_documents FOLDER --write`.\n"
    return head + yaml.safe_dump(values, sort_keys=False)


def main() -> None:
    """Print the calibration; with --write also store it."""
    parser = argparse.ArgumentParser(prog="python -m bench.calibrate_documents", description="Calibrate the relevance.")
    parser.add_argument("folder", type=Path, help="sources of Python's documentation")
    parser.add_argument("--vectors", type=Path, help="keep the embeddings in this file for the next run")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a local embedding model")
    parser.add_argument("--write", action="store_true", help="write the file of the model")
    options = parser.parse_args()
    file = CONFIG_DIR / "models" / f"{options.model}.documents.yaml"
    model = load_policies(options.model).document_relevance
    if model is None:
        sys.exit(f"{file} is missing: it must have the profiles and the spreads")
    with throwaway.using_model(options.model):
        samples = documents.run(options.folder, options.vectors, lambda line: print(line, file=sys.stderr)).samples
    fitted = fit_documents(model, [s for s in samples if s.half == HALVES[0]])
    for half in HALVES:
        print(half)
        print(try_documents(fitted, [s for s in samples if s.half == half]))
    print(render_documents(fitted))
    if options.write:
        file.write_text(render_documents(fitted), encoding="utf-8")


if __name__ == "__main__":
    main()
