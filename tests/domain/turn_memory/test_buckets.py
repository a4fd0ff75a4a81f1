"""Buckets: ids, weights, conflicts, and the reconciliation with new fingerprints."""

import hashlib
import itertools
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.turn_memory.active_set import ActiveSet
from app.domain.turn_memory.buckets import (
    Bucket,
    BucketStatus,
    bucket_id,
    bucket_objective,
    drop_turn,
    parse_bucket,
    take_fingerprint,
)
from app.domain.turn_memory.fingerprint import Fingerprint, read_fingerprint
from app.domain.turn_memory.reconciliation import Reconciliation, advance_active_set, reconcile_buckets

NOW = datetime(2026, 1, 26, 15, 3, 12, 345_000, UTC)
EMPTY = Bucket("obj-diagram-12345678", "diagram", NOW, NOW)


def fact(value: Any, key: str = "city", **more: Any) -> dict[str, Any]:
    return {"key": key, "value": value} | more


def printed(
    turn: int | str, *facts: dict[str, Any], objective: str = "diagram", at: int = 0, **more: Any
) -> Fingerprint:
    """Return the fingerprint of a turn that was made `at` minutes later, by default as many as its number."""
    minutes = at or (turn if isinstance(turn, int) else 0)
    raw = {"objective": objective, "facts": list(facts)} | more
    return read_fingerprint(f"turn_{turn}", NOW + timedelta(minutes=minutes), raw)


def taken(*fingerprints: Fingerprint, bucket: Bucket = EMPTY) -> Bucket:
    for fingerprint in fingerprints:
        bucket = take_fingerprint(bucket, fingerprint, NOW)
    return bucket


def weights(bucket: Bucket) -> dict[Any, float]:
    return {one.signal.value: one.weight for one in bucket.signals}


def after(result: Reconciliation, buckets: list[Bucket]) -> list[Bucket]:
    """Return the buckets that are stored after a run."""
    by_id = {bucket.bucket_id: bucket for bucket in (*buckets, *result.changed, *result.added)}
    return list(by_id.values())


def test_an_id_is_a_slug_of_32_characters_and_8_digits_of_the_sha1() -> None:
    objective = "Fix the Mermaid diagram, then translate it to Portuguese"
    digest = hashlib.sha1(objective.lower().encode(), usedforsecurity=False).hexdigest()[:8]
    assert bucket_id(objective) == f"obj-fix-the-mermaid-diagram-then-tra-{digest}"
    assert bucket_id(objective.upper()) == bucket_id(objective)
    assert bucket_id("Diagramm") != bucket_id("Diagramm.")
    assert re.fullmatch("obj--[0-9a-f]{8}", bucket_id("図を描く"))


@given(st.text(max_size=500))
def test_every_objective_has_an_id(objective: str) -> None:
    slug = bucket_id(objective).removeprefix("obj-")[:-9]
    assert len(slug) <= 32
    assert re.fullmatch("(obj-[a-z0-9-]*-[0-9a-f]{8})", bucket_id(objective))


def test_a_fingerprint_without_an_objective_goes_by_its_topics() -> None:
    assert bucket_objective(printed(1, objective="", topics=["b", "a"])) == "b, a"
    assert bucket_objective(printed(1, objective="")) == "general"


def test_a_repeated_signal_gains_and_others_decay_slowly() -> None:
    bucket = taken(printed(1, fact("Porto"), fact("red", "colour")))
    assert weights(bucket) == {"Porto": 0.5, "red": 0.5}
    bucket = taken(printed(2, fact("PORTO")), bucket=bucket)
    assert weights(bucket) == {"PORTO": 0.6, "red": 0.48}
    for turn in range(3, 20):
        bucket = taken(printed(turn, fact("Porto")), bucket=bucket)
    assert weights(bucket)["Porto"] == 1.0
    for turn in range(20, 84):
        bucket = taken(printed(turn), bucket=bucket)
    assert set(weights(bucket).values()) == {0.05}


def test_scope_and_applies_to_belong_to_the_identity() -> None:
    first = fact("Porto")
    bucket = taken(printed(1, first), printed(2, first | {"scope": "thread"}), printed(3, first | {"applies_to": "x"}))
    assert sorted(one.weight for one in bucket.signals) == [0.46, 0.48, 0.5]


def test_a_conflict_keeps_both_values_at_lower_weight() -> None:
    bucket = taken(printed(1, fact("Porto")), printed(2, fact("Lisbon")))
    assert weights(bucket) == {"Porto": 0.24, "Lisbon": 0.25}
    alone = taken(printed(1, fact("Porto")), printed(2, fact("Lisbon", scope="thread")))
    assert weights(alone) == {"Porto": 0.48, "Lisbon": 0.5}


def test_the_latest_of_contradicting_values_weighs_as_much_as_the_strongest() -> None:
    often = [printed(turn, fact("Porto")) for turn in range(1, 5)]
    bucket = taken(*often, printed(5, fact("Lisbon")))
    assert weights(bucket) == {"Porto": 0.39, "Lisbon": 0.39}
    assert weights(taken(printed(6, fact("Porto")), bucket=bucket)) == {"Porto": 0.45, "Lisbon": 0.24}
    assert weights(taken(printed(9), bucket=bucket)) == {"Porto": 0.38, "Lisbon": 0.38}


def test_a_value_that_wore_out_contradicts_no_more() -> None:
    bucket = taken(printed(1, fact("Porto")), *(printed(turn, fact("Lisbon")) for turn in range(2, 40)))
    assert weights(bucket) == {"Porto": 0.05, "Lisbon": 1.0}


def test_the_newest_statement_gives_kind_and_severity() -> None:
    never = printed(2, exceptions=[fact("Porto", severity="do_not")])
    bucket = taken(never, printed(1, fact("porto")))
    [one] = bucket.signals
    assert (one.signal.kind, one.signal.severity, one.turn_ids) == ("exceptions", "do_not", ("turn_1", "turn_2"))
    assert (one.first_seen, one.last_seen) == (NOW + timedelta(minutes=1), NOW + timedelta(minutes=2))


def test_assistant_signals_stay_out() -> None:
    assert taken(printed(1, assistant_signals=[fact("promo")])).signals == ()


def test_a_replaced_fingerprint_counts_once() -> None:
    bucket = taken(printed(1, fact("Porto")), printed(2, fact("Porto")))
    assert taken(printed(2, fact("Porto")), bucket=bucket) == bucket
    corrected = taken(printed(2, fact("Lisbon")), bucket=bucket)
    assert weights(corrected) == {"Porto": 0.24, "Lisbon": 0.25}
    assert weights(taken(printed(2), bucket=corrected)) == {"Porto": 0.48}


def test_a_dropped_turn_takes_along_what_it_alone_stated() -> None:
    bucket = taken(printed(1, fact("Porto")), printed(2, fact("Porto"), fact("red", "colour")))
    dropped = drop_turn(bucket, "turn_2", NOW)
    assert weights(dropped) == {"Porto": 0.5}
    assert [turn.turn_id for turn in dropped.turns] == ["turn_1"]
    assert dropped.signals == taken(printed(1, fact("Porto"))).signals


def test_a_bucket_counts_its_newest_64_turns_and_holds_128_signals() -> None:
    bucket = taken(*(printed(turn, fact("Porto")) for turn in range(1, 71)))
    assert len(bucket.turns) == len(bucket.signals[0].turn_ids) == 64
    assert taken(printed("old", fact("Porto"), at=1), bucket=bucket).signals[0].weight == 1.0
    assert [turn.turn_id for turn in taken(printed("old", at=1), bucket=bucket).turns] == [
        f"turn_{turn}" for turn in range(7, 71)
    ]
    for turn in range(71, 77):
        bucket = taken(printed(turn, *(fact(f"{turn}-{n}", f"k{turn}-{n}") for n in range(30))), bucket=bucket)
    assert len(bucket.signals) == 128
    assert "Porto" in weights(bucket)


def test_a_bucket_is_read_as_it_was_stored() -> None:
    bucket = taken(printed(1, fact({"a": [1, None]}), topics=["t"]), printed(2, fact("x" * 900, "k")))
    assert parse_bucket(json.loads(json.dumps(bucket.as_json()))) == bucket
    card = bucket.as_card()
    assert (card["bucket_id"], card["signal_count"], card["turn_count"]) == (bucket.bucket_id, 2, 2)
    assert "turn_ids" not in card["signals"][0]
    many = taken(printed(1, *(fact(n, f"k{n}") for n in range(20))))
    assert len(many.as_card()["signals"]) == 8


values = st.sampled_from(["Porto", "Lisbon", "Braga"])
keys = st.sampled_from(["city", "colour"])
statements = st.lists(st.builds(fact, values, keys), max_size=3)
objectives = st.sampled_from(["diagram", "diagram of boats", "party", "cake", "train", "invoice", ""])
histories = st.lists(st.tuples(statements, objectives, st.integers(0, 30)), max_size=12)


def made(history: list[tuple[list[dict[str, Any]], str, int]]) -> list[Fingerprint]:
    return [
        printed(turn, *facts, objective=objective, at=minutes)
        for turn, (facts, objective, minutes) in enumerate(history, 1)
    ]


@given(histories, st.randoms(use_true_random=False))
def test_the_order_of_the_fingerprints_of_a_bucket_does_not_matter(history: Any, chance: Any) -> None:
    fingerprints = made(history)
    shuffled = [*fingerprints]
    chance.shuffle(shuffled)
    one, other = taken(*fingerprints), taken(*shuffled)
    assert (one.signals, one.turns, set(one.topics)) == (other.signals, other.turns, set(other.topics))


@given(histories)
def test_no_value_weighs_more_than_the_latest_of_its_thing(history: Any) -> None:
    bucket = taken(*made(history))
    order = {turn.turn_id: place for place, turn in enumerate(bucket.turns)}
    groups: dict[Any, list[Any]] = {}
    for one in bucket.signals:
        key, _value, scope, applies_to = one.signal.identity
        if one.turn_ids:
            groups.setdefault((key, scope, applies_to), []).append(one)
    for values in groups.values():
        last = max(order[one.turn_ids[-1]] for one in values)
        latest = [one.weight for one in values if order[one.turn_ids[-1]] == last]
        assert max(latest) >= max(one.weight for one in values)


@given(histories)
def test_weights_stay_within_their_range(history: Any) -> None:
    bucket = EMPTY
    for fingerprint in made(history) * 2:
        bucket = taken(fingerprint, bucket=bucket)
        assert all(0.05 <= one.weight <= 1.0 for one in bucket.signals)


@pytest.mark.long
@given(histories, histories)
@settings(max_examples=60)
def test_runs_keep_their_caps_lose_no_bucket_and_take_everything(first: Any, second: Any) -> None:
    buckets: list[Bucket] = []
    for history in (first, second):  # the second replaces fingerprints of the first
        waiting = made(history)
        for _run in range(len(waiting) + 1):
            result = reconcile_buckets(buckets, waiting, NOW)
            assert len(result.changed) <= 4
            assert len(result.added) <= 2
            assert {one.bucket_id for one in result.changed} <= {one.bucket_id for one in buckets}
            assert {one.bucket_id for one in result.added}.isdisjoint(one.bucket_id for one in buckets)
            assert sorted(one.turn_id for one in (*result.taken, *result.waiting)) == sorted(
                one.turn_id for one in waiting
            )
            assert len(result.taken) >= min(1, len(waiting))
            again = reconcile_buckets(reversed(buckets), reversed(waiting), NOW)
            assert again == result
            buckets, waiting = after(result, buckets), list(result.waiting)
        assert waiting == []
        turns = [turn.turn_id for bucket in buckets for turn in bucket.turns]
        assert len(turns) == len(set(turns))


def test_a_run_adds_two_buckets_and_the_rest_waits() -> None:
    fingerprints = [printed(n, fact(n), objective=word) for n, word in enumerate(["a", "b", "c", "a", "d"], 1)]
    result = reconcile_buckets([], fingerprints, NOW)
    assert [bucket.objective for bucket in result.added] == ["a", "b"]
    assert [one.turn_id for one in result.taken] == ["turn_1", "turn_2", "turn_4"]
    assert [one.turn_id for one in result.waiting] == ["turn_3", "turn_5"]


def test_a_run_changes_four_buckets_and_the_rest_waits() -> None:
    names = ["a", "b", "c", "d", "e"]
    buckets = [replace(EMPTY, bucket_id=bucket_id(name), objective=name) for name in names]
    result = reconcile_buckets(buckets, [printed(n, fact(n), objective=word) for n, word in enumerate(names, 1)], NOW)
    assert (len(result.changed), [one.objective for one in result.waiting]) == (4, ["e"])


def test_a_fingerprint_fits_the_bucket_of_a_like_objective() -> None:
    first = reconcile_buckets([], [printed(1, fact(1), objective="fix the mermaid diagram", topics=["mermaid"])], NOW)
    [bucket] = first.added
    for objective, topics, fits in (
        ("Fix the diagram", [], True),  # 3 of 4 words
        ("repair the diagram", ["Mermaid"], True),  # 2 of 5 words and the topic: 0.7
        ("repair the diagram", ["Mermaid", "boats"], False),  # 0.45
        ("repair the diagram", [], False),  # 0.4
    ):
        result = reconcile_buckets([bucket], [printed(2, fact(2), objective=objective, topics=topics)], NOW)
        assert (len(result.changed), len(result.added)) == ((1, 0) if fits else (0, 1)), objective
    assert reconcile_buckets([bucket], [printed(2, fact(2), objective="bake a cake", topics=["mermaid"])], NOW).added


def test_a_bucket_is_disabled_when_unused_or_worn_out_and_a_fingerprint_revives_it() -> None:
    bucket = taken(printed(1, fact("Porto")))
    assert reconcile_buckets([bucket], [], NOW + timedelta(days=90)) == Reconciliation()
    later = NOW + timedelta(days=90, seconds=1)
    [disabled] = reconcile_buckets([bucket], [], later).changed
    assert (disabled.status, disabled.signals) == (BucketStatus.disabled, bucket.signals)
    assert reconcile_buckets([disabled], [], later) == Reconciliation()
    [revived] = reconcile_buckets([disabled], [printed(2, fact("Porto"))], later).changed
    assert (revived.status, weights(revived)) == (BucketStatus.active, {"Porto": 0.6})
    worn = taken(*(printed(turn) for turn in range(2, 30)), bucket=bucket)
    assert set(weights(worn).values()) == {0.05}
    [gone] = reconcile_buckets([worn], [], NOW).changed
    assert gone.status is BucketStatus.disabled


def test_a_run_disables_no_more_than_four() -> None:
    buckets = [replace(taken(printed(1, fact(1))), bucket_id=f"obj-{n}-00000000") for n in range(6)]
    result = reconcile_buckets(buckets, [], NOW + timedelta(days=91))
    assert [one.bucket_id for one in result.changed] == [f"obj-{n}-00000000" for n in range(4)]


def test_a_conversation_has_at_most_64_buckets() -> None:
    buckets = [replace(EMPTY, bucket_id=bucket_id(f"w{n}"), objective=f"w{n}") for n in range(64)]
    result = reconcile_buckets(buckets, [printed(1, fact(1), objective="w7 and more")], NOW)
    assert ([one.objective for one in result.changed if one.turns], result.added) == (["w7"], ())
    assert reconcile_buckets(buckets[:63], [printed(1, fact(1), objective="new")], NOW).added


def test_a_fingerprint_without_signals_makes_no_bucket() -> None:
    result = reconcile_buckets([], [printed(1)], NOW)
    assert (result.added, len(result.taken)) == ((), 1)


def test_the_time_of_the_active_set_passes_no_waiting_fingerprint() -> None:
    one, two, old = printed(1), printed(2), printed("old", at=-100)
    active = ActiveSet(last_reconciled_ts=NOW, since_last_reconcile=3)
    part = advance_active_set(active, Reconciliation(taken=(one,), waiting=(two,)))
    assert (part.last_reconciled_ts, part.since_last_reconcile) == (one.made_at, 2)
    blocked = advance_active_set(active, Reconciliation(taken=(one, two), waiting=(old,)))
    assert (blocked.last_reconciled_ts, blocked.since_last_reconcile) == (NOW, 1)
    whole = advance_active_set(active, Reconciliation(taken=(old,)))
    assert (whole.last_reconciled_ts, whole.since_last_reconcile) == (NOW, 0)
    fresh = advance_active_set(ActiveSet(since_last_reconcile=2), Reconciliation(taken=(one, two)))
    assert (fresh.last_reconciled_ts, fresh.since_last_reconcile) == (two.made_at, 0)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_fingerprints_of_one_time_have_an_order(order: tuple[int, ...]) -> None:
    three = [printed(f"t{n}", fact("Porto", severity=level), at=5) for n, level in enumerate(("high", "low", "medium"))]
    [one] = taken(*(three[n] for n in order)).signals
    assert (one.signal.severity, one.turn_ids) == ("medium", ("turn_t0", "turn_t1", "turn_t2"))
