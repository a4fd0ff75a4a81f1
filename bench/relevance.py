"""The quality of the relevance: does it tell the items that help to answer from those that do not?

Each question of LoCoMo is asked of its own conversation and of another one, whose answers can only be wrong:

- `own`: as it is; `own masked`: every second question without the speakers' names.
- `foreign`: a question about another conversation; `foreign masked`: every second one without names.
- `exchanged`: a foreign question with the names of this conversation's speakers.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.principal import Principal
from app.usecases.recall.answer import Answer
from app.usecases.recall.request import Query
from bench import locomo

TOP_K: Final = 10
BINS: Final = 10
MIXED: Final = ("own", "own masked", "foreign", "foreign masked")
"""The questions of one mixture: names are masked in half of them."""


@dataclass(frozen=True, slots=True)
class RelevanceSample:
    """The ranked items of one question: their signals, shape (items, signals), whether they are turns,
    labels and relevances.

    `evidence` is the number of memories that help to answer. `masked`: the question has a copy without names.
    """

    conversation: int
    kind: str
    masked: bool
    evidence: int
    signals: NDArray[np.float64]
    turns: NDArray[np.bool_]
    labels: NDArray[np.bool_]
    relevances: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RelevanceFigures:
    """The figures of some samples for one least relevance.

    `items`: mean number of items answered, by kind of question. `auroc`: of all items of MIXED. `bins`: tenths of the
    items of MIXED by relevance, each with the mean relevance and the share of items that help; `widths`: the same for
    bins of equal width, each with its number of items.
    """

    recall: float
    recall_lost: float
    items: dict[str, float]
    auroc: float
    bins: list[tuple[float, float]]
    widths: list[tuple[int, float, float]]

    @property
    def worst_gap(self) -> float:
        """The largest difference between relevance and share in a bin."""
        return max(abs(told - true) for told, true in self.bins)

    @property
    def text(self) -> str:
        """The figures as lines of text."""
        items = ", ".join(f"{kind} {count:.2f}" for kind, count in self.items.items())
        lines = [
            f"relevance: AUROC {self.auroc:.3f}; recall@10 {self.recall:.3f}, lost by the cut {self.recall_lost:.3f}",
            f"items answered of 10, by kind of question: {items}",
            f"reliability in tenths of the items, relevance/share that helps (worst gap {self.worst_gap:.3f}):",
            "  " + "  ".join(f"{told:.3f}/{true:.3f}" for told, true in self.bins),
            "reliability in steps of 0.1, items: relevance/share:",
            "  " + "  ".join(f"{count}: {told:.2f}/{true:.2f}" for count, told, true in self.widths),
        ]
        return "\n".join(lines)


def exchange_names(question: str, names: Sequence[str], others: Sequence[str]) -> str:
    """Return the question with each name replaced by the other at its place."""
    by_name = {name.lower(): other for name, other in zip(names, others, strict=True)}
    pattern = "|".join(re.escape(name) for name in names)
    return re.sub(rf"\b({pattern})\b", lambda m: by_name[m[1].lower()], question, flags=re.IGNORECASE)


def mask_names(question: str, names: Sequence[str]) -> str:
    """Return the question without the names."""
    pattern = "|".join(re.escape(name) for name in names)
    return " ".join(re.sub(rf"\b({pattern})\b('s)?", "", question, flags=re.IGNORECASE).split())


def speakers_of(sample: dict[str, Any]) -> tuple[str, str]:
    """Return the names of a conversation's two speakers."""
    return str(sample["conversation"]["speaker_a"]), str(sample["conversation"]["speaker_b"])


async def ask_variants(
    app: Application,
    query: Query,
    principal: Principal,
    conversation: int,
    own: tuple[dict[str, Any], Sequence[locomo.Question]],
    foreign: tuple[dict[str, Any], Sequence[locomo.Question]],
    turn_ids: dict[UUID, str],
) -> list[RelevanceSample]:
    """Ask every question of both conversations of the first one. `query` has the other fields of each query."""
    names, others = speakers_of(own[0]), speakers_of(foreign[0])
    asked: list[tuple[str, str, tuple[str, ...], bool]] = []
    for at, question in enumerate(own[1]):
        asked.append(("own", question.question, question.evidence, at % 2 == 1))
        if at % 2:
            asked.append(("own masked", mask_names(question.question, names), question.evidence, True))
    for at, question in enumerate(foreign[1]):
        asked.append(("foreign", question.question, (), at % 2 == 1))
        if at % 2:
            asked.append(("foreign masked", mask_names(question.question, others), (), True))
        asked.append(("exchanged", exchange_names(question.question, others, names), (), False))
    samples = []
    for kind, text, evidence, masked in asked:
        user = locomo.user_of(str(own[0]["sample_id"]))
        changed = Query(query.agent, text, query.categories, Filters(user_id=user), TOP_K, 8192, min_relevance=0.0)
        answer = await app.recall.query.answer_query(principal, changed)
        helpful = {id_ for id_, turn in turn_ids.items() if turn in evidence}
        samples.append(sample_of(answer, conversation, kind, masked, helpful, len(evidence)))
    return samples


def sample_of(
    answer: Answer, conversation: int, kind: str, masked: bool, helpful: set[UUID], evidence: int
) -> RelevanceSample:
    """Return the sample of an answer. Raise ValueError if an item has no relevance."""
    scored = [item.scored for item in answer.items if item.scored is not None]
    if any(s.signals is None or s.relevance is None for s in scored):
        raise ValueError("an item has no relevance: is the profile calibrated, and does the embedder give tokens?")
    return RelevanceSample(
        conversation,
        kind,
        masked,
        evidence,
        np.array([s.signals for s in scored]),
        np.array([s.candidate.seq is not None for s in scored], bool),
        np.array([s.candidate.id in helpful for s in scored], bool),
        np.array([s.relevance for s in scored], np.float64),
    )


def measure_relevance(
    samples: Sequence[RelevanceSample], least: float, told: Sequence[NDArray[np.float64]] | None = None
) -> RelevanceFigures:
    """Return the figures for the least relevance `least`. `told` replaces the relevances of the samples."""
    told = [s.relevances for s in samples] if told is None else told
    own = [(s, r) for s, r in zip(samples, told, strict=True) if s.kind == "own"]
    before = [s.labels.sum() / s.evidence for s, _ in own]
    after = [s.labels[r >= least].sum() / s.evidence for s, r in own]
    kinds = sorted({s.kind for s in samples})
    items = {
        kind: float(np.mean([(r >= least).sum() for s, r in zip(samples, told, strict=True) if s.kind == kind]))
        for kind in kinds
    }
    mixed = [(r, s.labels) for s, r in zip(samples, told, strict=True) if is_mixed(s)]
    values, labels = np.concatenate([r for r, _ in mixed]), np.concatenate([y for _, y in mixed])
    return RelevanceFigures(
        float(np.mean(before)),
        float(np.mean(before) - np.mean(after)),
        items,
        area_under_roc(values, labels),
        _equal_bins(values, labels),
        _wide_bins(values, labels),
    )


def is_mixed(sample: RelevanceSample) -> bool:
    """Tell whether the sample belongs to the mixture, in which half of the questions have no names."""
    return sample.kind in MIXED and (sample.masked == ("masked" in sample.kind))


def area_under_roc(values: NDArray[np.float64], labels: NDArray[np.bool_]) -> float:
    """Return the probability that an item that helps has a higher value than one that does not."""
    ranks = np.empty(len(values))
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    helpful = int(labels.sum())
    if not 0 < helpful < len(labels):
        return math.nan
    above = ranks[labels].sum() - helpful * (helpful - 1) / 2
    return float(above / (helpful * (len(labels) - helpful)))


def _equal_bins(values: NDArray[np.float64], labels: NDArray[np.bool_]) -> list[tuple[float, float]]:
    parts = np.array_split(np.argsort(values, kind="stable"), BINS)
    return [(float(values[part].mean()), float(labels[part].mean())) for part in parts]


def _wide_bins(values: NDArray[np.float64], labels: NDArray[np.bool_]) -> list[tuple[int, float, float]]:
    places = np.minimum((values * BINS).astype(int), BINS - 1)
    chosen = ((places == at) for at in range(BINS))
    return [(int(c.sum()), float(values[c].mean()), float(labels[c].mean())) for c in chosen if c.any()]
