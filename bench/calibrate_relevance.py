"""Calibration of the relevance of the local embedding model (`docs/benchmarks.md`, Relevance).

    python -m bench.calibrate_relevance --locomo FILE           fits on all but one conversation, tries it on that one
    python -m bench.calibrate_relevance --locomo FILE --write   also fits on all and writes the coefficients

The coefficients are those of logistic regressions with a small ridge penalty: one of turns, fitted on questions of
LoCoMo, and two of facts, fitted on the realistic users, and with `--model multilingual-e5-small` on the development
part of bench/languages too. Items that are stale for a question do not count.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml
from numpy.typing import NDArray

from app.bootstrap import Doubles, build_application
from app.config.loader import CONFIG_DIR, load_policies
from app.domain.filters import Filters
from app.domain.recall.relevance import SIGNALS, Regression, RelevanceModel, estimate_relevance
from app.usecases.recall.request import Query
from bench import retrieval, throwaway
from bench.answers import store_user
from bench.languages import AGENT, DEVELOPMENT, ENGLISH, Asker, Corpus, known_languages
from bench.realistic_users import USERS, load_user
from bench.relevance import MIXED, RelevanceFigures, RelevanceSample, area_under_roc, measure_relevance, sample_of

ENGLISH_MODEL: Final = "all-MiniLM-L6-v2"
FACT_KINDS: Final = frozenset({*USERS, *known_languages()})
"""The kinds of samples without turns: the realistic users, and the languages."""
RIDGE: Final = 1.0
STEPS: Final = 50
FACT_SIGNALS: Final = ("rank", "total", "context", "best_similarity")
QUESTION_SIGNALS: Final = ("best_words", "best_similarity")


@dataclass(frozen=True, slots=True)
class FactSignals:
    """The signals that the regressions of facts and of questions read."""

    facts: tuple[str, ...] = FACT_SIGNALS
    question: tuple[str, ...] = QUESTION_SIGNALS


MULTILINGUAL_SIGNALS: Final = FactSignals(
    ("rank", "total", "best_total", "context"), ("best_words", "best_total", "best_similarity")
)
"""Cosines of one model differ between languages, and less so what stands out among the candidates of a question."""


def fit_logistic(signals: NDArray[np.float64], labels: NDArray[np.bool_]) -> Regression:
    """Fit a logistic regression by Newton's method. The ridge penalty is on coefficients of standardised signals."""
    mean, deviation = signals.mean(axis=0), signals.std(axis=0)
    deviation[deviation < 1e-9] = 1.0
    rows = np.column_stack([np.ones(len(signals)), (signals - mean) / deviation])
    penalty = RIDGE * np.diag([0.0, *np.ones(signals.shape[1])])
    found = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        told = 0.5 + 0.5 * np.tanh(rows @ found / 2)
        slope = rows.T @ (labels - told) - penalty @ found
        curve = rows.T @ (rows * (told * (1 - told))[:, None]) + penalty
        step = np.linalg.solve(curve, slope)
        found += step
        if np.abs(step).max() < 1e-8:
            break
    coefficients = found[1:] / deviation
    named = dict(zip(SIGNALS, coefficients.tolist(), strict=True))
    return Regression(float(found[0] - coefficients @ mean), {name: value for name, value in named.items() if value})


def fit_turns(samples: Sequence[RelevanceSample]) -> Regression:
    """Fit the mixture of LoCoMo's questions."""
    used = [s for s in samples if s.kind in MIXED]
    return fit_logistic(np.concatenate([s.signals for s in used]), np.concatenate([s.labels for s in used]))


def fit_users(model: RelevanceModel, samples: Sequence[RelevanceSample], read: FactSignals) -> RelevanceModel:
    """Fit facts and questions of realistic users, by few signals, because there are few questions."""
    used = [s for s in samples if s.kind in FACT_KINDS and len(s.labels)]
    answered = [s for s in used if s.evidence]
    facts = np.concatenate([only_signals(s.signals[~s.turns], read.facts) for s in answered])
    questions = np.stack([only_signals(s.signals, read.question)[0] for s in used])
    return replace(
        model,
        facts=fit_logistic(facts, np.concatenate([s.labels[~s.turns] for s in answered])),
        question=fit_logistic(questions, np.array([s.evidence > 0 for s in used])),
    )


def only_signals(signals: NDArray[np.float64], names: Sequence[str]) -> NDArray[np.float64]:
    """Return the signals with all others set to 0, so that they get no coefficient."""
    return signals * np.array([name in names for name in SIGNALS])


def try_folds(samples: Sequence[RelevanceSample], model: RelevanceModel, least: float) -> RelevanceFigures:
    """Fit on all conversations but one and try it on that one, for each; return the figures of all together."""
    tried: list[RelevanceSample] = []
    told: list[NDArray[np.float64]] = []
    for conversation in sorted({s.conversation for s in samples if s.kind not in FACT_KINDS}):
        fitted = replace(model, turns=fit_turns([s for s in samples if s.conversation != conversation]))
        for sample in (s for s in samples if s.conversation == conversation):
            tried.append(sample)
            told.append(_relevances_of(sample, fitted))
    return measure_relevance(tried, least, told)


def try_users(samples: Sequence[RelevanceSample], model: RelevanceModel, read: FactSignals) -> str:
    """Fit on one realistic user and try it on the other; return the area under the ROC of each as text."""
    lines = []
    for name in USERS:
        fitted = fit_users(model, [s for s in samples if s.kind != name], read)
        tried = [(_relevances_of(s, fitted)[~s.turns], s.labels[~s.turns]) for s in samples if s.kind == name]
        area = area_under_roc(np.concatenate([r for r, _ in tried]), np.concatenate([y for _, y in tried]))
        lines.append(f"facts of {name}, fitted on the other user: AUROC {area:.3f}")
    return "\n".join(lines)


def _relevances_of(sample: RelevanceSample, model: RelevanceModel) -> NDArray[np.float64]:
    turns = np.flatnonzero(sample.turns).tolist()
    return np.array(estimate_relevance(model, sample.signals, turns), np.float64)


async def ask_users(site: throwaway.Site) -> list[RelevanceSample]:
    """Ask the questions of the realistic users, with ten items each, less those that are stale for the question."""
    clock, samples = retrieval.MovableClock(), []
    async with build_application(site.home.server_settings(site.cluster), Doubles(clock=clock)) as app:
        principal = await app.tenancy.tenants.authenticate(site.key)
        assert principal is not None
        for name in USERS:
            user = load_user(name)
            keys = await store_user(app, principal, user, clock)
            for question in user.questions:
                filters = Filters(user.user_id)
                asked = Query(question.agent, question.ask, question.categories, filters, 10, 8192, min_relevance=0.0)
                answer = await app.recall.query.answer_query(principal, asked)
                answer.items = [item for item in answer.items if not keys[item.memory.id] & question.stale]
                helpful = {id_ for id_, named in keys.items() if named & question.relevant}
                samples.append(sample_of(answer, -1, name, False, helpful, len(helpful)))
    return samples


async def ask_languages(site: throwaway.Site) -> list[RelevanceSample]:
    """Ask the questions of each language: of the memories in the same language, and of the English ones."""
    samples = []
    async with build_application(site.home.server_settings(site.cluster)) as app:
        principal = await app.tenancy.tenants.authenticate(site.key)
        assert principal is not None
        asker = Asker(app, principal)
        corpora = [Corpus(DEVELOPMENT, language) for language in known_languages()]
        for corpus in corpora:
            await asker.store_corpus(corpus)
            for user_id in {ENGLISH, corpus.language}:
                for question in corpus.questions:
                    asked = Query(AGENT, question.text, (), Filters(user_id), 10, 8192, min_relevance=0.0)
                    answer = await app.recall.query.answer_query(principal, asked)
                    helpful = asker.memories_of(question)
                    samples.append(sample_of(answer, -1, corpus.language, False, helpful, len(helpful)))
    return samples


def collect_samples(model: str, file: Path, conversations: Sequence[int]) -> list[RelevanceSample]:
    """Ask all questions on a throw-away installation."""

    async def ask_all(site: throwaway.Site) -> list[RelevanceSample]:
        _, samples = await retrieval.measure_profiles(site, file, conversations, [], _print_progress)
        samples += await ask_users(site)
        return samples if model == ENGLISH_MODEL else samples + await ask_languages(site)

    with throwaway.open_site(0) as site:
        return asyncio.run(ask_all(site))


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def render_model(model: RelevanceModel) -> str:
    """Return the text of the model's file."""
    spreads = {
        name: {"mean": getattr(model, name).mean, "deviation": getattr(model, name).deviation}
        for name in ("dense", "lexical", "late")
    }
    values: dict[str, Any] = {"profiles": list(model.profiles), "prior": model.prior, **spreads}
    for name, fitted in (("turns", model.turns), ("facts", model.facts), ("question", model.question)):
        rounded = {signal: round(value, 4) for signal, value in fitted.coefficients.items()}
        values[name] = {"intercept": round(fitted.intercept, 4), "coefficients": rounded}
    values["least"] = asdict(model.least)
    head = "# Relevance for this embedding model, by `python -m bench.calibrate_relevance --write`.\n"
    return head + yaml.safe_dump(values, sort_keys=False)


def main() -> None:
    """Print the calibration; with --write also store it."""
    parser = argparse.ArgumentParser(prog="python -m bench.calibrate_relevance", description="Calibrate the relevance.")
    parser.add_argument("--locomo", type=Path, required=True, help="LoCoMo's JSON file")
    parser.add_argument("--conversations", default="1,2,3,4,5", help="comma-separated places in the file, from 1")
    parser.add_argument("--model", default=ENGLISH_MODEL, help="a local embedding model")
    parser.add_argument("--write", action="store_true", help="write the file of the model")
    options = parser.parse_args()
    file = CONFIG_DIR / "models" / f"{options.model}.relevance.yaml"
    policies = load_policies(options.model)
    if policies.relevance is None:
        sys.exit(f"{file} is missing: it must have the profiles and the spreads")
    least = policies.relevance.least.turns
    conversations = [int(part) for part in options.conversations.split(",")]
    with throwaway.using_model(options.model):
        samples = collect_samples(options.model, options.locomo, conversations)
    print(f"each conversation with the coefficients of the others, min_relevance {least}:")
    print(try_folds(samples, policies.relevance, least).text)
    read = FactSignals() if options.model == ENGLISH_MODEL else MULTILINGUAL_SIGNALS
    print(try_users(samples, policies.relevance, read))
    fitted = fit_users(replace(policies.relevance, turns=fit_turns(samples)), samples, read)
    print(render_model(fitted))
    if options.write:
        file.write_text(render_model(fitted), encoding="utf-8")


if __name__ == "__main__":
    main()
