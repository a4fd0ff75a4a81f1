"""Endpoint behaviours against every pipeline: no turn is lost, nothing loops, and what is readable is read."""

import pytest

from bench import endpoint_behaviours as bench
from tests.fake_llm.endpoints import BEHAVIOURS


@pytest.mark.long
def test_no_turn_is_lost_and_what_is_readable_is_read() -> None:
    figures = bench.run()
    assert len(figures) == len(BEHAVIOURS) >= 60
    assert not [one.behaviour.title for one in figures if one.lost]
    assert not [one.behaviour.title for one in figures if one.extra_calls]
    readable = [one for one in figures if one.behaviour.is_readable]
    unread = [f"{one.behaviour.title}, {pipeline}" for one in readable for pipeline in one.unread]
    assert len(unread) <= 0.05 * len(readable) * len(bench.PIPELINES), unread
    [rules_alone] = {one.memories for one in figures if not one.behaviour.is_readable}
    assert rules_alone > 0
    assert all(one.memories >= rules_alone for one in readable)
    table = bench.render_table(figures)
    assert len(table.splitlines()) == len(figures) + 2
