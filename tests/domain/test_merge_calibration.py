"""The shipped merge bands on labelled pairs, with the real model's cosines."""

import asyncio
import math
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from app.domain.memory.merge_bands import MergeBands
from bench import calibrate_merge as calibration
from bench.calibrate_merge import MeasuredPair, Pair
from tests.conftest import model_cache

pytestmark = pytest.mark.xdist_group("merge calibration")


@pytest.fixture(scope="module")
def measured() -> list[MeasuredPair]:
    """Return every pair with its cosine."""
    return asyncio.run(calibration.measure_cosines(calibration.load_pairs(), model_cache()))


def made_up(*pairs: tuple[str, float]) -> list[MeasuredPair]:
    """Return pairs with these labels and cosines, none of which a rule confirms."""
    kinds = {"same": "reworded", "different": "names"}
    return [
        MeasuredPair(Pair(f"Ana{at} paints", f"Ben{at} swims", label, kinds[label]), cosine)
        for at, (label, cosine) in enumerate(pairs)
    ]


def test_pairs_are_many_distinct_and_of_every_kind() -> None:
    pairs = calibration.load_pairs()
    kinds = Counter(pair.kind for pair in pairs)
    assert len(pairs) == len({frozenset((pair.a, pair.b)) for pair in pairs}) >= 520
    assert set(kinds) == set(calibration.ALL_KINDS)
    assert min(kinds.values()) >= 15
    assert sum(pair.is_same for pair in pairs) >= 200
    assert sum(not pair.is_same for pair in pairs) >= 300
    assert max(len(text) for pair in pairs for text in (pair.a, pair.b)) <= 280


def test_a_label_that_does_not_go_with_its_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"a": "x", "b": "y", "label": "same", "kind": "negation"}\n')
    with pytest.raises(ValueError, match="does not go with kind 'negation'"):
        calibration.load_pairs(file)


@pytest.mark.long
def test_shipped_bands_make_no_false_merge(measured: list[MeasuredPair]) -> None:
    assert calibration.merged_pairs(measured, calibration.shipped_bands(), same=False) == []


@pytest.mark.long
def test_shipped_bands_still_merge(measured: list[MeasuredPair]) -> None:
    assert len(calibration.merged_pairs(measured, calibration.shipped_bands(), same=True)) >= 100


def test_shipped_file_is_what_the_script_writes(measured: list[MeasuredPair]) -> None:
    shipped = calibration.shipped_bands()
    assert calibration.calibrated_bands(measured, shipped) == shipped
    assert calibration.render_bands(measured, shipped) == calibration.bands_file(calibration.MINILM).read_text(
        encoding="utf-8"
    )


def test_the_bands_do_not_depend_on_where_they_start(measured: list[MeasuredPair]) -> None:
    shipped = calibration.shipped_bands()
    other = replace(shipped, auto_update=0.9, auto_update_equality_only=False, check_low=0.8)
    assert calibration.render_bands(measured, other) == calibration.render_bands(measured, shipped)


@pytest.mark.long
def test_no_fold_opens_auto_update(measured: list[MeasuredPair]) -> None:
    for split in (calibration.stratified_folds, calibration.kind_folds):
        parts = [part for _, part in split(measured)]
        assert sorted(map(id, chain.from_iterable(parts))) == sorted(map(id, measured))
        for part in parts:
            rest = [one for one in measured if one not in part]
            assert calibration.calibrated_bands(rest, MergeBands()).auto_update_equality_only


def test_auto_update_opens_a_margin_above_the_nearest_different_pair() -> None:
    clear = made_up(("different", 0.81), ("same", 0.95), ("same", 0.9))
    bands = calibration.calibrated_bands(clear, MergeBands())
    assert (bands.auto_update, bands.auto_update_equality_only) == (0.82, False)
    assert bands.check_low <= bands.auto_update
    near = [*clear, *made_up(("different", 0.9899))]
    assert calibration.pick_auto_update(near) is None, "1.00 would confirm none"
    assert calibration.pick_auto_update([*clear, *made_up(("different", 0.995))]) is None


def test_check_low_keeps_nineteen_in_twenty() -> None:
    same = made_up(*[("same", 0.78)] * 19, ("same", 0.31))
    assert calibration.pick_check_low(same) == 0.75
    assert calibration.pick_check_low([*same, *made_up(("same", 0.41))]) == 0.4


def test_measuring_gives_the_products_cosine(measured: list[MeasuredPair]) -> None:
    assert all(-1 <= one.cosine <= 1 and math.isfinite(one.cosine) for one in measured)
    assert max(one.cosine for one in measured if one.pair.kind == "unrelated") < 0.3
