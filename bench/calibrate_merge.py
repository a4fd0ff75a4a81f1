"""Calibration of the merge bands of the local embedding model on labelled pairs (`docs/contract.md`, Merging).

    python -m bench.calibrate_merge            prints the decisions of the bands and the deterministic rule
    python -m bench.calibrate_merge --write    also rewrites config/models/all-MiniLM-L6-v2.yaml

bench/merge_pairs.jsonl was written for this project: `a` is the stored memory, `b` the new one. Pairs were labelled
by meaning before the rule or the model ran on them, and no label was changed afterwards. Some were written to break
the rule. Pairs of the part "held_out" were set aside while the rule was developed. "same" means one fact, also with a
new value of a single-valued attribute. "different" means that two memories must stay, always so for appointments and
dates. So the shares describe hard pairs, not everyday writes.
"""

import argparse
import asyncio
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final, get_args
from uuid import UUID

import numpy as np
import yaml

from app.config.yaml_files import CONFIG_DIR
from app.domain.memory.merge_bands import Decision, MergeBands, MergeRule, Neighbour, decide_merge, same_fact
from app.domain.text_rules import text_key
from app.providers.embeddings.local import LocalEmbedder
from app.providers.embeddings.minilm import NAME as MINILM
from app.providers.embeddings.onnx_graph import Precision

PAIRS_FILE: Final = Path(__file__).with_name("merge_pairs.jsonl")
CACHE_DIR: Final = Path.home() / ".cache" / "mnema" / "models"
_LIKE_WORDS: Final = ("opposed_preference", "negation", "names", "numbers", "dates", "role_swap")
_LIKE_SPELLINGS: Final = ("ambiguous_date", "fixed_pairs", "possessives")
KINDS: Final = {
    "same": (
        *("reworded", "reordered", "extended", "new_value"),
        *("spelling", "notation", "and_order", "sides_of_is"),
    ),
    "different": (*_LIKE_WORDS, *_LIKE_SPELLINGS, "same_topic", "unrelated"),
}
ALL_KINDS: Final = KINDS["same"] + KINDS["different"]
SEED_AUTO_UPDATE: Final = 0.85
MARGIN: Final = 0.01
"""Cosine distance between the nearest pair of different facts and the smallest auto_update."""
MIN_AUTO_RECALL: Final = 0.05
"""Minimum recall of an open auto_update; below it the risk is not worth it."""
CHECK_LOW_RECALL: Final = 0.95
"""Minimum recall of check_low, both over all "same" pairs and over those that the rule confirms."""
FOLDS: Final = 5
_ID: Final = UUID(int=0)
_NOW: Final = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two memories and the label that says if they are one fact."""

    a: str
    b: str
    label: str
    kind: str
    part: str = "development"

    @property
    def is_same(self) -> bool:
        """True if the label is "same"."""
        return self.label == "same"


@dataclass(frozen=True, slots=True)
class MeasuredPair:
    """A pair and its cosine by the product's embedder."""

    pair: Pair
    cosine: float


def load_pairs(path: Path = PAIRS_FILE) -> list[Pair]:
    """Return the pairs. Raise ValueError if a label and its kind disagree."""
    pairs = [Pair(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    for pair in pairs:
        if pair.kind not in KINDS[pair.label]:
            raise ValueError(f"label {pair.label!r} does not go with kind {pair.kind!r}: {pair.a}")
    return pairs


def bands_file(model: str) -> Path:
    """Return the file with the bands of an embedding model."""
    return CONFIG_DIR / "models" / f"{model}.yaml"


async def measure_cosines(
    pairs: Sequence[Pair], cache_dir: Path = CACHE_DIR, precision: Precision = "int8", model: str = MINILM
) -> list[MeasuredPair]:
    """Return the pairs with their cosines, measured by the product's own embedder."""
    embedder = LocalEmbedder(cache_dir=cache_dir, precision=precision, name=model)
    try:
        left = np.asarray(await embedder.embed_texts([pair.a for pair in pairs]))
        right = np.asarray(await embedder.embed_texts([pair.b for pair in pairs]))
    finally:
        await embedder.close()
    cosines = (left * right).sum(axis=1)
    return [MeasuredPair(pair, float(cosine)) for pair, cosine in zip(pairs, cosines, strict=True)]


def shipped_bands(model: str = MINILM) -> MergeBands:
    """Return the bands in config/; for a model without any, those of the code."""
    file = bands_file(model)
    return MergeBands(**yaml.safe_load(file.read_text(encoding="utf-8"))) if file.exists() else MergeBands()


def merge_decision(one: MeasuredPair, bands: MergeBands, *, numeric_update: bool = False) -> Decision:
    """Return the product's decision when `b` arrives and `a` is stored. No shipped category has numeric_update."""
    pair = one.pair
    stored = Neighbour(_ID, pair.a, one.cosine, _NOW, text_key(pair.a) == text_key(pair.b))
    return decide_merge(pair.b, [stored], bands, now=_NOW, numeric_update=numeric_update, fallback_allowed=False)


def merged_pairs(
    measured: Iterable[MeasuredPair], bands: MergeBands, *, same: bool, numeric_update: bool = False
) -> list[MeasuredPair]:
    """Return the pairs of one label that become one memory. With `same=False` these are false merges."""
    return [
        one
        for one in measured
        if one.pair.is_same == same and merge_decision(one, bands, numeric_update=numeric_update).action == "update"
    ]


def pick_auto_update(measured: Sequence[MeasuredPair]) -> float | None:
    """Return the smallest cosine, plus a margin, that no pair of different facts reaches; None if recall is too low."""
    nearest = max(one.cosine for one in measured if not one.pair.is_same)
    threshold = math.ceil(round((nearest + MARGIN) * 100, 6)) / 100
    return threshold if threshold <= 1 and recall_at(measured, threshold) >= MIN_AUTO_RECALL else None


def pick_check_low(measured: Sequence[MeasuredPair]) -> float:
    """Return the largest multiple of 0.05 with a recall of CHECK_LOW_RECALL, over all and over the confirmed pairs."""
    same = [one for one in measured if one.pair.is_same]
    sure = [one for one in same if same_fact(one.pair.a, one.pair.b, numeric_update=False) is not None]
    for step in range(20, 0, -1):
        if min(recall_at(same, step / 20), recall_at(sure, step / 20)) >= CHECK_LOW_RECALL:
            return step / 20
    return 0.0


def calibrated_bands(measured: Sequence[MeasuredPair], base: MergeBands) -> MergeBands:
    """Return `base` with the calibrated bands. Without an auto_update the check band reaches up to 1."""
    auto = pick_auto_update(measured)
    low = min(pick_check_low(measured), auto or 1.0)
    return replace(
        base,
        auto_update=auto or 1.0,
        auto_update_equality_only=auto is None,
        check_low=low,
        fallback_low=min(base.fallback_low, low),
    )


def recall_at(measured: Sequence[MeasuredPair], threshold: float) -> float:
    """Return the share of the "same" pairs at or above the threshold, 1 if there are none."""
    same = [one.cosine >= threshold for one in measured if one.pair.is_same]
    return sum(same) / len(same) if same else 1.0


def count_above(measured: Iterable[MeasuredPair], threshold: float) -> tuple[int, int]:
    """Return the numbers of "same" and of "different" pairs at or above the threshold."""
    near = [one.pair.is_same for one in measured if one.cosine >= threshold]
    return sum(near), len(near) - sum(near)


def stratified_folds(measured: Sequence[MeasuredPair]) -> Iterator[tuple[str, list[MeasuredPair]]]:
    """Yield FOLDS parts; every kind is spread evenly over them."""
    by_kind = [one for kind in ALL_KINDS for one in measured if one.pair.kind == kind]
    for fold in range(FOLDS):
        yield f"fold {fold + 1}", by_kind[fold::FOLDS]


def kind_folds(measured: Sequence[MeasuredPair]) -> Iterator[tuple[str, list[MeasuredPair]]]:
    """Yield one part for each kind, to test the bands on a kind of difficulty that did not influence them."""
    for kind in ALL_KINDS:
        yield kind, [one for one in measured if one.pair.kind == kind]


def render_bands(measured: Sequence[MeasuredPair], base: MergeBands) -> str:
    """Return the YAML file of the calibrated bands, with the figures behind them."""
    bands = calibrated_bands(measured, base)
    n_same = sum(one.pair.is_same for one in measured)
    right, wrong = (len(merged_pairs(measured, bands, same=same)) for same in (True, False))
    seed = count_above(measured, SEED_AUTO_UPDATE)
    nearest = max(one.cosine for one in measured if not one.pair.is_same)
    lines = [
        "# Merge bands for this embedding model, by `python -m bench.calibrate_merge --write` from",
        f"# {len(measured)} labelled pairs, hard by intent: {n_same} of one fact, {len(measured) - n_same} of two.",
        f"# auto_update: from {SEED_AUTO_UPDATE} up {_percentage(seed[0], sum(seed))} of the pairs are one fact (recall"
        f" {_percentage(seed[0], n_same)}), and two facts come as near as {nearest:.2f}:",
        *(
            ["# no cosine is safe, so auto-update admits equality only and the check band reaches up to 1."]
            if bands.auto_update_equality_only
            else [f"# from {bands.auto_update:.2f} up all are (recall {recall_at(measured, bands.auto_update):.0%})."]
        ),
        f"# check_low: {recall_at(measured, bands.check_low):.0%} of the pairs of one fact lie above it.",
        f"# With the deterministic rule {right} pairs merge rightly and {wrong} wrongly: precision"
        f" {_percentage(right, right + wrong)}, recall {_percentage(right, n_same)}.",
    ]
    return "\n".join(lines + [f"{f.name}: {_yaml_value(getattr(bands, f.name))}" for f in fields(bands)]) + "\n"


def _yaml_value(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    short = f"{value:.2f}"
    return short if isinstance(value, float) and float(short) == value else str(value)


def _percentage(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def print_kinds(measured: Sequence[MeasuredPair], bands: MergeBands) -> None:
    """Print cosines and merges of each kind; "numeric" stands for a category with numeric_update."""
    print(f"\n{'kind':20}{'n':>4}{'min':>8}{'median':>8}{'max':>8}{'merged':>8}{'numeric':>9}")
    for kind, part in kind_folds(measured):
        cosines = [one.cosine for one in part]
        counts = [
            sum(merge_decision(one, bands, numeric_update=numeric).action == "update" for one in part)
            for numeric in (False, True)
        ]
        print(
            f"{kind:20}{len(part):4}{min(cosines):8.3f}{median(cosines):8.3f}{max(cosines):8.3f}"
            f"{counts[0]:8}{counts[1]:9}"
        )


def print_decisions(measured: Sequence[MeasuredPair], bands: MergeBands) -> None:
    """Print precision and recall of each outcome; "create" is right for different facts."""
    n_same = sum(one.pair.is_same for one in measured)
    rules = [(one.pair.is_same, merge_decision(one, bands).rule) for one in measured]
    rows = [(f"auto-update, s >= {SEED_AUTO_UPDATE} (seed)", *count_above(measured, SEED_AUTO_UPDATE), n_same)]
    for rule in get_args(MergeRule)[:-1]:
        rows.append((f"rule {rule}", rules.count((True, rule)), rules.count((False, rule)), n_same))
    right, wrong = (len(merged_pairs(measured, bands, same=same)) for same in (True, False))
    rows.append(("all merges", right, wrong, n_same))
    rows.append(("create", rules.count((False, "none")), rules.count((True, "none")), len(measured) - n_same))
    print(f"\n{'outcome':34}{'right':>6}{'wrong':>6}{'precision':>11}{'recall':>8}")
    for name, right, wrong, total in rows:
        print(f"{name:34}{right:6}{wrong:6}{_percentage(right, right + wrong):>11}{_percentage(right, total):>8}")


def print_sweep(measured: Sequence[MeasuredPair]) -> None:
    """Print the merges for each auto_update by cosine alone."""
    print(f"\n{'auto_update':12}{'right':>6}{'false':>6}{'precision':>11}{'recall':>8}")
    for threshold in [*(step / 100 for step in range(80, 100)), 0.995, 1.0]:
        right, wrong = count_above(measured, threshold)
        recall = f"{recall_at(measured, threshold):.0%}"
        print(f"{threshold:<12.3f}{right:6}{wrong:6}{_percentage(right, right + wrong):>11}{recall:>8}")


def print_held_out(
    measured: Sequence[MeasuredPair],
    base: MergeBands,
    split: Callable[[Sequence[MeasuredPair]], Iterator[tuple[str, list[MeasuredPair]]]],
) -> None:
    """Print the results of bands from the other parts on each part: false merges, and "same" pairs above check_low.

    "no margin" is an auto_update just above the nearest different pair of the other parts.
    """
    print(f"\n{'held out':20}{'auto':>6}{'low':>6}{'false':>7}{'kept':>7}{'no margin':>11}{'false':>7}{'right':>7}")
    for name, part in split(measured):
        rest = [one for one in measured if one not in part]
        bands = calibrated_bands(rest, base)
        auto = "=" if bands.auto_update_equality_only else f"{bands.auto_update:.2f}"
        bare = math.nextafter(max(one.cosine for one in rest if not one.pair.is_same), 2)
        right, wrong = count_above(part, bare)
        false = len(merged_pairs(part, bands, same=False))
        kept = f"{recall_at(part, bands.check_low):.0%}"
        print(f"{name:20}{auto:>6}{bands.check_low:6.2f}{false:7}{kept:>7}{bare:11.4f}{wrong:7}{right:7}")


def main() -> None:
    """Print the calibration; with --write also store it."""
    parser = argparse.ArgumentParser(prog="python -m bench.calibrate_merge", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", default=MINILM, help="a local embedding model")
    parser.add_argument("--write", action="store_true", help="rewrite the file of the model")
    parser.add_argument("--precision", choices=get_args(Precision), default="int8", help="of the model (int8)")
    options = parser.parse_args()
    measured = asyncio.run(measure_cosines(load_pairs(), precision=options.precision, model=options.model))
    base = shipped_bands(options.model)
    bands = calibrated_bands(measured, base)
    print_kinds(measured, bands)
    print_decisions(measured, bands)
    print_sweep(measured)
    for split in (stratified_folds, kind_folds):
        print_held_out(measured, base, split)
    for numeric in (False, True):
        print(f"\nFalse merges{', category with numeric_update' if numeric else ''}:")
        for one in merged_pairs(measured, bands, same=False, numeric_update=numeric):
            print(f"  {one.cosine:.3f} {one.pair.kind}: {one.pair.a} | {one.pair.b}")
    print(f"\n{render_bands(measured, base)}")
    if options.write:
        bands_file(options.model).write_text(render_bands(measured, base), encoding="utf-8")


if __name__ == "__main__":
    main()
