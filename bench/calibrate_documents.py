"""Calibration of the relevance of chunks (`docs/benchmarks.md`, Documents).

    python -m bench.calibrate_documents FOLDER            fits on the development questions, tries it on the others
    python -m bench.calibrate_documents FOLDER --write    also writes the coefficients

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

from app.config.loader import CONFIG_DIR, load_policies
from app.domain.recall.relevance import RelevanceModel, estimate_relevance
from bench import documents
from bench.calibrate_relevance import ENGLISH_MODEL, FACT_SIGNALS, QUESTION_SIGNALS, fit_logistic, only_signals
from bench.documents_questions import HALVES
from bench.relevance import area_under_roc

FILE: Final = CONFIG_DIR / "models" / f"{ENGLISH_MODEL}.documents.yaml"
LIMITS: Final = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)


def fit_documents(model: RelevanceModel, samples: Sequence[documents.Sample]) -> RelevanceModel:
    """Fit both regressions."""
    answered = [s for s in samples if s.answerable]
    chunks = np.concatenate([only_signals(s.signals, FACT_SIGNALS) for s in answered])
    questions = np.stack([only_signals(s.signals, QUESTION_SIGNALS)[0] for s in samples])
    return replace(
        model,
        facts=fit_logistic(chunks, np.concatenate([s.labels for s in answered])),
        question=fit_logistic(questions, np.array([s.answerable for s in samples])),
    )


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
    return np.array(estimate_relevance(model, signals, []), np.float64)


def render_documents(model: RelevanceModel) -> str:
    """Return the text of the model's file."""
    spreads = {name: getattr(model, name) for name in ("dense", "lexical", "late")}
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
    parser.add_argument("--write", action="store_true", help=f"write {FILE.name}")
    options = parser.parse_args()
    model = load_policies(ENGLISH_MODEL).document_relevance
    if model is None:
        sys.exit(f"{FILE} is missing: it must have the profiles and the spreads")
    samples = documents.run(options.folder, options.vectors, lambda line: print(line, file=sys.stderr)).samples
    fitted = fit_documents(model, [s for s in samples if s.half == HALVES[0]])
    for half in HALVES:
        print(half)
        print(try_documents(fitted, [s for s in samples if s.half == half]))
    print(render_documents(fitted))
    if options.write:
        FILE.write_text(render_documents(fitted), encoding="utf-8")


if __name__ == "__main__":
    main()
