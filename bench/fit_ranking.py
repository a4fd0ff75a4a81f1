"""Fit the weights of ranking and the relevance of a local embedding model (`docs/benchmarks.md`, Evidence found).

    python -m bench.fit_ranking [DATA...] [--model multilingual-e5-small] [--write]

DATA are conversations in a format of `mnema eval`; those with turns of an assistant count twice, once with the turns of
users alone. The plain facts and the languages of this folder are added; without DATA only the relevance of facts is
fitted, to these. Each set has the same weight. The weights of turns are those of a softmax over the candidates of a
question, those of facts the best of a grid; the relevance is from logistic regressions. Recall is told with weights,
and the cut with regressions, of other conversations.
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import asyncpg
import numpy as np
import yaml
from numpy.typing import NDArray

from app.bootstrap import Doubles, build_application
from app.bootstrap.model import DEFAULT_MODEL
from app.config.loader import Policies, load_policies
from app.config.yaml_files import CONFIG_DIR
from app.domain.recall.profiles import RankingProfile
from app.domain.recall.relevance import SIGNALS, Regression, RelevanceModel, estimate_relevance
from app.domain.recall.scoring import score_candidates
from bench import languages, throwaway
from bench.evaluation.data import Conversation, DataSet
from bench.evaluation.figures import area_under_roc
from bench.evaluation.loading import load_data
from bench.evaluation.storing import UnitWriter
from bench.ranking_samples import FOLDS, Sample, SampleCollector, language_data, only_users, smaller_samples
from bench.regressions import Rows, fit_logistic, fit_softmax

PLAIN: Final = Path(__file__).parent / "plain_facts" / "development.jsonl"
WEIGHTS: Final = (
    "dense",
    "lexical",
    "late",
    "context",
    "top_words",
    "neighbours",
    "actor",
    "asks",
    "answers",
    "assistant",
    "orders",
    "session",
    "date",
)
MATCHES: Final = WEIGHTS[:5]
MATCH_SUM: Final = 1.1
"""The sum of the weights of the match, so that the boosts of a profile mean the same with each model."""
FIRST: Final = dict.fromkeys(MATCHES, 0.2) | dict.fromkeys(WEIGHTS[5:], 0.1)
PASSES: Final = 3
"""Some signals depend on the weights of others, so the weights are fitted again with the signals that they give."""
FACT_WEIGHTS: Final = ("dense", "lexical", "late")
FACT_STEP: Final = 0.05
FACT_DEPTH: Final = 3
"""Facts are few, so their weights are those that find the most among the first three, on a grid of this step."""
DEPTHS: Final = {True: 10, False: 5}
"""The items of an answer of turns, and of other memories."""
SIGNALS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "turns": ("rank", "total", "best_total", "context", "similarity", "pool", "distinct", "asks", "best_words"),
    "conversation": (
        "best_total",
        "best_words",
        "best_top_words",
        "best_similarity",
        "margin",
        "pool",
        "best_context",
    ),
    "facts": ("rank", "total", "best_total"),
    "question": ("words_gap", "covered_gap", "few"),
}
BY_HAND: Final = "foreign"
"""A signal with a coefficient that is kept as it is, beside `least`: the answer in another language is less sure."""
FREE: Final = frozenset({"rank", "best_total", "asks", "pool"})
"""Signals whose coefficient may be negative. A better match never makes a memory less relevant.

Outside the range of the samples, such as in a store of two memories, that would take noise for an answer.
"""


@dataclass(frozen=True, slots=True)
class Fit:
    """The weights of turns, those of facts, and the relevance model."""

    weights: dict[str, float]
    fact_weights: dict[str, float]
    relevance: RelevanceModel


async def collect_samples(site: throwaway.Site, sets: Mapping[str, DataSet]) -> list[Sample]:
    """Store all sets and ask their questions."""
    clock = throwaway.MovableClock()
    names = [(name, replace(one, id=f"{name} {one.id}")) for name, data in sets.items() for one in data.conversations]
    samples: list[Sample] = []
    async with build_application(site.home.server_settings(site.cluster), Doubles(clock=clock)) as app:
        principal = await app.tenancy.tenants.authenticate(site.key)
        assert principal is not None
        conversations = [one for _, one in names]
        stored = await UnitWriter(app, principal, clock, _print_progress).store_all(DataSet(conversations))
        sql = await asyncpg.connect(site.superuser_url)
        await sql.execute("VACUUM (ANALYZE)")
        await sql.close()
        collector = SampleCollector(app, principal, clock)
        for (name, one), units in zip(names, stored, strict=True):
            other = _other_conversation(names, name, one)
            samples += [sample async for sample in collector.ask_questions(name, one, units, other)]
            _print_progress(f"{one.id}: {len(samples)} samples")
    return samples


def _other_conversation(names: Sequence[tuple[str, Conversation]], name: str, one: Conversation) -> Conversation:
    """Return the next conversation of the set; for facts one of another set, because all of a set are of one person."""
    if any(unit.category for unit in one.units):
        wanted = "languages" if name == "plain facts" else "plain facts"
        return next(other for set_, other in names if set_ == wanted)
    same = [other for set_, other in names if set_ == name]
    return same[(same.index(one) + 1) % len(same)]


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def fit_weights(samples: Sequence[Sample], policies: Policies) -> tuple[dict[str, float], str]:
    """Return the weights of turns, and the recall of each set with the weights of the other folds, as text."""
    asked = [sample for sample in samples if sample.answerable]
    found = [bool(sample.labels.any()) for sample in asked]
    weights = dict(FIRST)
    rows = _signal_rows(asked, policies, weights)
    for _ in range(PASSES):
        weights = _normalise(fit_softmax(rows.choose(found)))
        rows = _signal_rows(asked, policies, {name: value or 0.001 for name, value in weights.items()})
    recalls: dict[str, list[float]] = {}
    for fold in {sample.fold for sample in asked}:
        others = [sample.fold != fold and one for sample, one in zip(asked, found, strict=True)]
        fitted = fit_softmax(rows.choose(others))
        for sample, part in zip(asked, rows.parts, strict=True):
            if sample.fold == fold:
                best = np.argsort(-(part @ fitted), kind="stable")[: DEPTHS[sample.has_turns]]
                recalls.setdefault(sample.data, []).append(sample.labels[best].sum() / sample.evidence)
    told = ", ".join(f"{name} {np.mean(values):.3f}" for name, values in recalls.items())
    return weights, f"recall with the weights of other conversations: {told}"


def choose_fact_weights(samples: Sequence[Sample], policies: Policies) -> tuple[dict[str, float], str]:
    """Return the weights of the grid that find the most, and what they find of each set, as text."""
    asked = [sample for sample in samples if sample.answerable]
    rows = _signal_rows(asked, policies, dict.fromkeys(FACT_WEIGHTS, 1.0))
    steps = np.arange(FACT_STEP, MATCH_SUM, FACT_STEP)
    grid = [(dense, lexical, MATCH_SUM - dense - lexical) for dense in steps for lexical in steps]
    found = {weights: _recall_of_facts(asked, rows, np.array(weights)) for weights in grid if weights[2] > 0}
    best = max(found, key=lambda weights: round(float(np.mean(list(found[weights].values()))), 4))
    told = ", ".join(f"{name} {value:.3f}" for name, value in found[best].items())
    return {name: round(float(w), 2) for name, w in zip(FACT_WEIGHTS, best, strict=True)}, told


def _recall_of_facts(samples: Sequence[Sample], rows: Rows, weights: NDArray[np.float64]) -> dict[str, float]:
    recalls: dict[str, list[float]] = {}
    for sample, part in zip(samples, rows.parts, strict=True):
        best = np.argsort(-(part @ weights), kind="stable")[:FACT_DEPTH]
        recalls.setdefault(sample.data, []).append(sample.labels[best].sum() / min(FACT_DEPTH, sample.evidence))
    return {name: float(np.mean(values)) for name, values in recalls.items()}


def _normalise(found: NDArray[np.float64]) -> dict[str, float]:
    match = float(found[: len(MATCHES)].sum())
    return {name: round(float(value) * MATCH_SUM / match, 2) for name, value in zip(WEIGHTS, found, strict=True)}


def _signal_rows(samples: Sequence[Sample], policies: Policies, weights: Mapping[str, float]) -> Rows:
    """Return the signals of the candidates, for weights that are not 0."""
    none: dict[str, Any] = dict.fromkeys((f"fact_{name}" for name in FACT_WEIGHTS), None)
    others = dict.fromkeys(WEIGHTS, 0.0)
    profile = replace(policies.profiles["default"], **(none | others | dict(weights)))
    parts = []
    for sample in samples:
        scored = {s.candidate.id: s for s in _score(sample, policies, profile)}
        columns = next(iter(scored.values())).columns
        places = [scored[candidate.id].at for candidate in sample.candidates]
        count = len(sample.candidates)
        parts.append(
            np.column_stack([columns.get(name, np.zeros(count))[places] / value for name, value in weights.items()])
        )
    sizes = Counter(sample.data for sample in samples)
    return Rows(parts, [sample.labels for sample in samples], [1 / sizes[sample.data] for sample in samples])


def _score(sample: Sample, policies: Policies, profile: RankingProfile) -> Any:
    return score_candidates(sample.candidates, profile, sample.now, sample.query, policies.relevance)


def fit_relevance(samples: Sequence[Sample], policies: Policies) -> tuple[RelevanceModel, str]:
    """Return the relevance model of the policies' weights, and the figures of models fitted on other conversations."""
    assert policies.relevance is not None
    read = [_ReadSample.of(sample, policies) for sample in (*samples, *smaller_samples(samples))]
    told: dict[str, list[tuple[_ReadSample, NDArray[np.float64], float]]] = {}
    for fold in range(FOLDS):
        model = _fit_regressions(policies.relevance, [one for one in read if one.sample.fold != fold])
        for one in (one for one in read if one.sample.fold == fold and one.sample.whole):
            told.setdefault(one.sample.data, []).append((one, *one.estimate(model)))
    least = policies.relevance.least
    lines = [_describe(name, ones, least.turns, least.facts) for name, ones in told.items()]
    return _fit_regressions(policies.relevance, read), "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _ReadSample:
    """A sample with the signals and labels of its best candidates, best first."""

    sample: Sample
    signals: NDArray[np.float64]
    labels: NDArray[np.bool_]
    turns: bool

    @classmethod
    def of(cls, sample: Sample, policies: Policies) -> "_ReadSample":
        scored = _score(sample, policies, policies.profiles["default"])[: DEPTHS[True]]
        places = {candidate.id: at for at, candidate in enumerate(sample.candidates)}
        signals = np.nan_to_num(np.array([s.signals for s in scored]))
        return cls(sample, signals, sample.labels[[places[s.candidate.id] for s in scored]], sample.has_turns)

    def estimate(self, model: RelevanceModel) -> tuple[NDArray[np.float64], float]:
        """Return the relevance of each candidate, and the probability that any helps."""
        relevances, answerable = estimate_relevance(model, self.signals, of_turns=bool(self.turns))
        return np.array(relevances, np.float64), answerable


def _fit_regressions(model: RelevanceModel, read: Sequence[_ReadSample]) -> RelevanceModel:
    """Fit on sets, answerable or not and whole or not, that count the same; half as much if not whole."""

    def kind_of(one: _ReadSample) -> tuple[str, bool, bool]:
        return one.sample.data, one.sample.answerable, one.sample.whole

    sizes = Counter(map(kind_of, read))
    fitted: dict[str, Any] = {}
    for turns, item, asked in ((True, "turns", "conversation"), (False, "facts", "question")):
        own = [one for one in read if one.turns == turns and len(one.signals)]
        weight = {id(one): (500.0 if one.sample.whole else 250.0) / sizes[kind_of(one)] for one in own}
        answered = [one for one in own if one.sample.answerable]
        if not answered:  # all conversations of the kind are left out
            continue
        fitted[item] = _fit(
            item,
            np.concatenate([one.signals for one in answered]),
            np.concatenate([one.labels for one in answered]),
            np.concatenate([np.full(len(one.labels), weight[id(one)]) for one in answered]),
        )
        fitted[asked] = _fit(
            asked,
            np.stack([one.signals[0] for one in own]),
            np.array([one.sample.answerable for one in own]),
            np.array([weight[id(one)] for one in own]),
        )
    if "facts" in fitted and (by_hand := model.facts.coefficients.get(BY_HAND)):
        fitted["facts"] = replace(fitted["facts"], coefficients={**fitted["facts"].coefficients, BY_HAND: by_hand})
    return replace(model, **fitted)


def _fit(
    name: str, signals: NDArray[np.float64], labels: NDArray[np.bool_], weights: NDArray[np.float64]
) -> Regression:
    names = list(SIGNALS_OF[name])
    while True:
        chosen = signals[:, [SIGNALS.index(signal) for signal in names]]
        intercept, found = fit_logistic(chosen, labels, weights)
        moved = found * chosen.std(axis=0)
        wrong = {signal: value for signal, value in zip(names, moved, strict=True) if value < 0 and signal not in FREE}
        if not wrong:
            return Regression(round(intercept, 4), dict(zip(names, found.round(4).tolist(), strict=True)))
        names.remove(min(wrong, key=lambda signal: wrong[signal]))


def _describe(
    name: str, told: Sequence[tuple[_ReadSample, NDArray[np.float64], float]], least_turns: float, least_facts: float
) -> str:
    before, after, kept, needless = [], [], [], []
    for one, relevances, _ in told:
        depth = DEPTHS[one.turns]
        admitted = relevances[:depth] >= (least_turns if one.turns else least_facts)
        if not one.sample.answerable:
            needless.append(admitted.sum())
            continue
        before.append(one.labels[:depth].sum() / one.sample.evidence)
        after.append(one.labels[:depth][admitted].sum() / one.sample.evidence)
        kept.append(admitted.sum())
    area = area_under_roc(
        np.array([asked for _, _, asked in told]), np.array([o.sample.answerable for o, _, _ in told])
    )
    return (
        f"{name}: recall {np.mean(before):.3f}, after the cut {np.mean(after):.3f}; items {np.mean(kept):.1f}, of an"
        f" unanswerable question {np.mean(needless):.1f}; AUROC of answerable {area:.3f}"
    )


def fit_all(samples: Sequence[Sample], policies: Policies, say: Callable[[str], None]) -> Fit:
    """Fit everything; say the figures of left out conversations."""
    weights, recall = fit_weights([s for s in samples if s.has_turns], policies)
    say(f"turns, {recall}")
    fact_weights, recall = choose_fact_weights([s for s in samples if not s.has_turns], policies)
    say(f"facts, among the first {FACT_DEPTH}: {recall}")
    named: dict[str, Any] = weights | {f"fact_{name}": value for name, value in fact_weights.items()}
    profile = replace(policies.profiles["default"], **named)
    relevance, figures = fit_relevance(samples, replace(policies, profiles={"default": profile}))
    say(figures)
    return Fit(weights, fact_weights, relevance)


def render_weights(fit: Fit, shipped: Mapping[str, Mapping[str, float]]) -> str:
    """Return the text of the model's weights."""
    facts = {f"fact_{name}": value for name, value in fit.fact_weights.items()}
    sets = {name: dict(values) for name, values in shipped.items()}
    sets["default"].update(fit.weights | facts)
    sets["facts"].update(fit.fact_weights)
    head = (
        "# Weights of ranking, in standard deviations over the candidates, by `python -m bench.fit_ranking --write`.\n"
    )
    return head + yaml.safe_dump(sets, sort_keys=False)


def render_relevance(model: RelevanceModel) -> str:
    """Return the text of the model's relevance."""
    spreads = ("dense", "lexical", "late", "context", "top_words")
    values: dict[str, Any] = {"profiles": list(model.profiles), "prior": model.prior}
    values |= {name: asdict(getattr(model, name)) for name in spreads}
    for name in ("turns", "conversation", "facts", "question"):
        regression: Regression = getattr(model, name)
        values[name] = {"intercept": regression.intercept, "coefficients": dict(regression.coefficients)}
    for name in ("noise", "noise_words"):
        spread = getattr(model, name)
        values |= {name: asdict(spread)} if spread else {}
    values["least"] = asdict(model.least)
    head = "# Relevance for this embedding model, by `python -m bench.fit_ranking --write`.\n"
    return head + yaml.safe_dump(values, sort_keys=False)


def main() -> None:
    """Print the fit; with --write also store it."""
    parser = argparse.ArgumentParser(prog="python -m bench.fit_ranking", description="Fit the ranking of a model.")
    parser.add_argument("data", type=Path, nargs="*", help="files of conversations, as for `mnema eval`")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="a local embedding model")
    parser.add_argument("--write", action="store_true", help="write the files of the model")
    options = parser.parse_args()
    policies = load_policies(options.model)
    sets = {path.stem: load_data([path])[0] for path in options.data}
    sets |= {
        f"{name}, users": only_users(data)
        for name, data in sets.items()
        if any(unit.role == unit.actor == "assistant" for one in data.conversations for unit in one.units)
    }
    foreign = options.model != DEFAULT_MODEL  # a model of English reads English alone
    sets |= {"plain facts": load_data([PLAIN])[0], "languages": language_data(languages.DEVELOPMENT, foreign)}
    with throwaway.using_model(options.model), throwaway.open_site(0) as site:
        samples = asyncio.run(collect_samples(site, sets))
    if options.data:
        fit = fit_all(samples, policies, print)
        texts = {"weights": render_weights(fit, policies.weights), "relevance": render_relevance(fit.relevance)}
    else:
        relevance, figures = fit_relevance(samples, policies)
        print(figures)
        texts = {"relevance": render_relevance(relevance)}
    for name, text in texts.items():
        print(text)
        if options.write:
            (CONFIG_DIR / "models" / f"{options.model}.{name}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
