"""Random edits on both sides of a mirror, with runs that are killed at any step."""

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st
from mnema_cli.mirror.rules.actions import Refuse
from mnema_cli.mirror.rules.entries import parse_file

from tests.cli.mirror.usecases.edited_world import EDIT, RUN, Fuse, World, parse_id, snapshot_files

ROUNDS = st.lists(st.tuples(st.lists(EDIT, min_size=1, max_size=5), RUN), max_size=8)


@given(ROUNDS)
@example([([("store_drop", 0), ("file_edit", 0)], Fuse(3)), ([("store_edit", 0), ("file_revert", 0)], Fuse(None))])
def test_both_sides_converge_and_no_text_is_lost(rounds: list[tuple[list[tuple[str, int]], Fuse]]) -> None:
    with tempfile.TemporaryDirectory(prefix="mnema-mirror-") as folder:
        world = World(Path(folder))
        for edits, fuse in [([("store_add", 0), ("store_add", 2)], Fuse(None)), *rounds, ([], Fuse(None))]:
            for name, number in edits:
                world.act(name, number)
            world.sync(replace(fuse))
            assert world.live <= world.texts_now()
            world.note_agreement()
        assert_in_step(world)


def assert_in_step(world: World) -> None:
    calls, before = list(world.store.calls), snapshot_files(world.root)
    report = world.sync(Fuse(None))
    assert report is not None
    assert [outcome for outcome in report.outcomes if not isinstance(outcome.action, Refuse)] == []
    assert (world.store.calls, snapshot_files(world.root)) == (calls, before)
    refused = {outcome.action.path for outcome in report.outcomes}
    accepted = [path for path in world.files() if path.relative_to(world.root).as_posix() not in refused]
    mirrored = {parse_file(path.read_bytes()).id: world.text_of(path) for path in accepted}
    hidden = {parse_id(path) for path in world.files()} - mirrored.keys()
    assert mirrored == {e.id: e.text for e in world.store.entries.values() if e.id not in hidden}
