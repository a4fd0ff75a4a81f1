"""`mnema mirror` with a real server and real files: both directions, conflicts, and everything that is refused."""

import json
from pathlib import Path
from uuid import uuid4

import pytest

from app.bootstrap import Application
from tests.acceptance.processes import free_port
from tests.cli.mirror.conftest import USER, MirrorRoom
from tests.factories import Caller, make_caller

FACTS = "talk/facts"


def edit(file: Path, old: str, new: str) -> None:
    content = file.read_text()
    assert old in content
    file.write_text(content.replace(old, new))


async def say(room: MirrorRoom, role: str, content: str) -> str:
    turn = {"user_id": USER, "thread_id": "talk", "role": role, "content": content}
    return str((await room.http.post("/turns", json=turn)).json()["id"])


@pytest.mark.long
async def test_entries_become_files_in_the_folders_of_their_kinds(room: MirrorRoom) -> None:
    asked, told = await say(room, "user", "Shall we meet?\n\nOn Friday?"), await say(room, "assistant", "Yes.")
    await say(room, "tool", "A tool's answer.")
    fact = await room.add("Maya drinks tea.", type="semantic", created_at="2025-03-01T10:15:00Z")
    loose = await room.add("Maya has a boat.", type="insight", thread_id=None)
    summary = await room.add("They plan to meet.", type="summary", metadata={"summary_kind": "rolling"})
    await room.add("A chunk of a file.", type="chunk")
    await room.add("Tie the boat up.", type="procedural", category="procedural", steps_text="1. Take the rope.")
    await room.add("Ben rows.", user_id="ben")
    printed = await room.run()
    assert "files   5 written, 0 updated, 0 deleted" in printed
    places = {memory_id: room.file(memory_id).relative_to(room.root) for memory_id in (asked, told, fact, loose)}
    assert places[asked].parent == Path("entries/talk/turns/user")
    assert places[told].parent == Path("entries/talk/turns/assistant")
    assert places[fact] == Path(f"entries/talk/facts/20250301T101500Z__{fact}.md")
    assert places[loose].parent == Path("entries/global/facts")
    assert room.file(summary) == room.root / "entries/talk/summaries/summary.md"
    assert room.file(summary).read_text().endswith("summary_kind: rolling\n---\n\nThey plan to meet.\n")
    assert len(list(room.root.glob("entries/**/*.md"))) == 5
    head = room.file(fact).read_text()
    assert head.startswith(f"---\nid: {fact}\nconversation_id: talk\nrole: memory\ncreated_at: 2025-03-01T10:15:00")
    before = room.tree("entries")
    assert "0 created, 0 updated, 0 deleted" in await room.run()
    assert room.tree("entries") == before


@pytest.mark.long
async def test_edits_of_both_sides_reach_the_other_and_history_names_the_mirror(room: MirrorRoom) -> None:
    edited, dropped, there, gone = [await room.add(f"Crate {name}.") for name in ("one", "two", "three", "four")]
    await room.run()
    edit(room.file(edited), "Crate one.", "Crate one is blue.")
    room.file(dropped).unlink()
    room.write(f"{FACTS}/new.md", "Maya plays chess.\n")
    room.write("talk/turns/user/said.md", "---\ncreated_at: 2025-01-02T03:04:05Z\nmood: calm\n---\n\nI said this.\n")
    room.write("another talk/summaries/summary.md", "They talked.\n")
    gone_file = room.file(gone)
    await room.http.patch(f"/memory/{there}", json={"text": "Crate three is red."})
    await room.http.delete(f"/memory/{gone}")
    late = await room.add("Crate five.")
    printed = await room.run("--category", "preferences")
    assert "server  3 created, 1 updated, 1 deleted" in printed
    assert "files   1 written, 1 updated, 1 deleted" in printed
    expected = ["Crate five.", "Crate one is blue.", "Crate three is red.", "I said this.", "Maya plays chess."]
    assert room.bodies() == await room.texts() == [*expected, "They talked."]
    assert (await room.memory(dropped))["state"] == "soft_deleted"
    assert not gone_file.exists()
    assert room.file(late).exists()
    assert (await room.actors(edited))[0] == ("UPDATE", "mirror")
    assert (await room.actors(dropped))[0] == ("DELETE", "mirror")
    made = {
        memory["text"]: memory for memory in (await room.http.get("/memory", params={"user_id": USER})).json()["items"]
    }
    for text, kind, category, thread in (
        ("Maya plays chess.", "semantic", "preferences", "talk"),
        ("I said this.", "turn", "activity", "talk"),
        ("They talked.", "summary", "preferences", "another talk"),
    ):
        memory = made[text]
        assert (memory["type"], memory["category"], memory["thread_id"]) == (kind, category, thread)
        assert await room.actors(memory["id"]) == [("ADD", "mirror")]
    assert made["I said this."]["created_at"] == "2025-01-02T03:04:05Z"
    assert "mood: calm" in (room.root / "entries/talk/turns/user/said.md").read_text()
    assert "0 created, 0 updated, 0 deleted" in await room.run()


@pytest.mark.long
async def test_the_span_of_an_entry_follows_its_file_and_back(room: MirrorRoom) -> None:
    memory_id = await room.add("Maya lives in Porto.", type="semantic", valid_from="2026-03-01")
    await room.run()
    file = room.file(memory_id)
    assert "valid_from: 2026-03-01T00:00:00+00:00\n" in file.read_text()
    edit(
        file, "valid_from: 2026-03-01T00:00:00+00:00\n", "valid_to: 2026-07-01\nexpires_at: 2999-01-01T10:00:00+02:00\n"
    )
    room.write(f"{FACTS}/new.md", "---\nvalid_from: 2026-05-01\n---\n\nMaya plays chess.\n")
    turn = room.write("talk/turns/user/said.md", "---\nvalid_to: 2999-01-01\n---\n\nI say this.\n")
    assert "a new turn has no valid_to" in await room.run(code=3)
    turn.unlink()
    memory = await room.memory(memory_id)
    names = ("text", "valid_from", "valid_to", "expires_at")
    ends = ("2026-07-01T00:00:00Z", "2999-01-01T08:00:00Z")
    assert [memory[name] for name in names] == ["Maya lives in Porto.", None, *ends]
    [made] = [path for path in room.root.glob("entries/**/new.md") if "valid_from: 2026-05-01" in path.read_text()]
    edit(file, "valid_to: 2026-07-01\n", "valid_to: soon\n")
    edit(made, "valid_from:", "valid_to: 2026-04-01\nvalid_from:")
    printed = await room.run(code=3)
    assert "valid_to is `soon`" in printed
    assert "invalid_span" in printed
    edit(file, "valid_to: soon\n", "")
    edit(made, "valid_to: 2026-04-01\n", "")
    await room.http.patch(f"/memory/{memory_id}", json={"valid_from": "2026-02-01"})
    assert "1 changed on both sides" in await room.run(code=3)
    assert "valid_from: 2026-02-01T00:00:00+00:00\n" in file.read_text()


@pytest.mark.long
async def test_a_change_of_both_sides_keeps_both_texts(room: MirrorRoom) -> None:
    both, deleted, revived = [await room.add(f"Boat {name}.") for name in ("one", "two", "three")]
    await room.run()
    edit(room.file(both), "Boat one.", "Boat one is here.")
    await room.http.patch(f"/memory/{both}", json={"text": "Boat one is there."})
    lost = room.file(deleted)
    edit(lost, "Boat two.", "Boat two is here.")
    await room.http.delete(f"/memory/{deleted}")
    room.file(revived).unlink()
    await room.http.patch(f"/memory/{revived}", json={"text": "Boat three is there."})
    printed = await room.run(code=3)
    assert "3 changed on both sides; no text was lost" in printed
    conflicts = {path.name: path.read_text() for path in room.root.glob("entries/**/*.conflict.md")}
    assert set(conflicts) == {f"{both}.conflict.md", f"{deleted}.conflict.md"}
    assert "Boat one is here." in conflicts[f"{both}.conflict.md"]
    assert "Boat two is here." in conflicts[f"{deleted}.conflict.md"]
    assert room.bodies() == await room.texts() == ["Boat one is there.", "Boat three is there."]
    for path in room.root.glob("entries/**/*.conflict.md"):
        path.unlink()
    await room.run()


@pytest.mark.long
@pytest.mark.parametrize("exists", [True, False])
async def test_a_dry_run_prints_the_plan_and_changes_nothing(room: MirrorRoom, exists: bool) -> None:
    memory_id = await room.add("Maya rows.")
    if exists:
        await room.run()
        edit(room.file(memory_id), "Maya rows.", "Maya rows fast.")
        room.write(f"{FACTS}/new.md", "Maya plays chess.\n")
        room.write(f"{FACTS}/.mnema-1234.tmp", "of a killed run")
        room.write(f"{FACTS}/broken.md", "---\nid: x\n")
        (room.root / ".mnema-mirror.lock").unlink()
    before, texts = room.tree(), await room.texts()
    printed = await room.run("--dry-run")
    assert (room.tree(), await room.texts()) == (before, texts)
    assert room.root.exists() == exists
    assert "nothing was changed" in printed
    expected = ["create_entry", "update_entry", "refuse"] if exists else ["write_file"]
    assert [line.split()[0] for line in printed.splitlines() if "entries/" in line] == expected


async def test_what_cannot_be_used_is_named_and_stays(room: MirrorRoom, app: Application) -> None:
    kept = await room.add("Maya rows.")
    bens = (await room.http.post("/memory", json={"user_id": "ben", "category": "tasks", "text": "Ben rows."})).json()[
        "id"
    ]
    await room.run()
    copy = room.write(f"{FACTS}/copy.md", room.file(kept).read_text())
    strange = {
        "foreign.md": (f"---\nid: {uuid4()}\n---\n\nNobody's.\n", "no entry of this user has the id"),
        "bens.md": (f"---\nid: {bens}\n---\n\nBen rows no more.\n", "no entry of this user has the id"),
        "broken.md": ("---\nid: [\n---\nText\n", ""),
        "open.md": ("---\nid: x\n", ""),
        "role.md": ("---\nrole: king\n---\n\nText\n", "the role `king` is unknown"),
        "future.md": ("---\ncreated_at: 2999-01-01T00:00:00Z\n---\n\nToo early.\n", "created_at lies in the future"),
        "long.md": ("word " * 200, "text_too_long"),
        "empty.md": ("", "the file has no text yet"),
    }
    for name, (content, _why) in strange.items():
        room.write(f"{FACTS}/{name}", content)
    for name in (".swp.md.swp", "4913", "notes.md~", "#notes.md#", ".#notes.md", "~$notes.md", "half.md.part"):
        room.write(f"{FACTS}/{name}", "an editor's")
    (room.root / "entries/link.md").symlink_to("/etc/passwd")
    (room.root / f"entries/{FACTS}/latin.md").write_bytes(b"caf\xe9")
    before = room.tree("entries")
    printed = await room.run(code=3)
    for name, (_content, why) in strange.items():
        assert f"{name}: " in printed
        assert why in printed
    assert f"another file has the id {kept} too" in printed
    assert "links are not followed" in printed
    assert "is not UTF-8" in printed
    assert "editor" not in printed
    assert room.tree("entries") == before
    assert await room.texts() == ["Maya rows."]
    assert (await room.memory(bens))["text"] == "Ben rows."
    copy.unlink()


@pytest.mark.long
async def test_a_root_of_another_user_or_tenant_is_refused(room: MirrorRoom, app: Application) -> None:
    await room.add("Maya rows.")
    await room.run()
    stranger = await make_caller(app)
    before = room.tree()
    assert "mirrors another user" in await room.run(user="ben", code=1)
    room.env["MNEMA_API_KEY"] = stranger.key
    assert "mirrors a user of another tenant" in await room.run(code=1)
    assert room.tree() == before


@pytest.mark.long
async def test_a_key_that_may_not_read_or_write_says_so(room: MirrorRoom, app: Application, caller: Caller) -> None:
    memory_id = await room.add("Maya rows.")
    room.env["MNEMA_API_KEY"] = (await make_caller(app, ["write"], None, caller)).key
    assert "scope_required" in await room.run(code=1)
    assert not room.root.exists()
    room.env["MNEMA_API_KEY"] = (await make_caller(app, ["query"], None, caller)).key
    await room.run()
    edit(room.file(memory_id), "Maya rows.", "Maya sails.")
    await room.add("Maya swims.")
    printed = await room.run(code=3)
    assert "scope_required" in printed
    assert "files   1 written" in printed
    assert await room.texts() == ["Maya rows.", "Maya swims."]
    assert room.bodies() == ["Maya sails.", "Maya swims."]
    room.env["MNEMA_API_KEY"] = "nonsense"
    assert "unauthenticated" in await room.run(code=1)


@pytest.mark.long
async def test_a_key_bound_to_agents_mirrors_only_its_categories(
    room: MirrorRoom, app: Application, caller: Caller
) -> None:
    await room.add("Maya drinks tea.", category="preferences", type="semantic")
    await room.add("Maya rows.", category="tasks")
    room.env["MNEMA_API_KEY"] = (await make_caller(app, ["query", "write"], ["planner"], caller)).key
    await room.run()
    assert room.bodies() == ["Maya rows."]
    room.write(f"{FACTS}/new.md", "Maya likes jazz.\n")
    assert "category_not_allowed" in await room.run("--category", "preferences", code=3)
    await room.run("--category", "tasks")
    assert await room.texts() == ["Maya drinks tea.", "Maya likes jazz.", "Maya rows."]


@pytest.mark.long
async def test_a_vanished_folder_deletes_nothing_unless_it_is_allowed(room: MirrorRoom) -> None:
    ids = [await room.add(f"Crate {name}.") for name in ("one", "two", "three")]
    await room.run()
    (room.root / "entries").rename(room.root / "elsewhere")
    assert "3 of 3 files are gone here; nothing was deleted" in await room.run(code=3)
    assert len(await room.texts()) == 3
    await room.run("--allow-mass-deletion")
    assert await room.texts() == []
    assert {(await room.memory(memory_id))["state"] for memory_id in ids} == {"soft_deleted"}


@pytest.mark.long
async def test_many_deletions_are_held_beyond_the_given_limits(room: MirrorRoom) -> None:
    for name in ("one", "two", "three", "four"):
        await room.add(f"Crate {name}.")
    await room.run()
    for path in sorted(room.root.glob("entries/**/*.md"))[:3]:
        path.unlink()
    limits = ("--max-deletions", "2", "--max-deleted-share", "0.6")
    assert "3 of 4 files are gone here" in await room.run(*limits, code=3)
    assert len(await room.texts()) == 4
    await room.run("--max-deletions", "3")
    assert len(await room.texts()) == 1


@pytest.mark.long
async def test_a_text_that_joins_a_memory_leaves_one_file(room: MirrorRoom) -> None:
    await room.add("Maya drinks oat milk.", type="semantic", category="preferences")
    await room.run()
    room.write(f"{FACTS}/again.md", "Maya drinks oat milk!\n")
    await room.run("--category", "preferences")
    assert await room.texts() == room.bodies()
    assert len(room.bodies()) == 1


@pytest.mark.long
async def test_a_broken_snapshot_loses_nothing(room: MirrorRoom) -> None:
    memory_id = await room.add("Maya rows.")
    await room.run()
    index = room.root / "memory_index.json"
    assert json.loads(index.read_text())["records"].keys() == {memory_id}
    edit(room.file(memory_id), "Maya rows.", "Maya sails.")
    index.write_text("{half")
    printed = await room.run(code=3)
    assert "memory_index.json cannot be read" in printed
    assert [
        path.read_text().rstrip().endswith("Maya sails.") for path in room.root.glob("entries/**/*.conflict.md")
    ] == [True]
    assert room.bodies() == ["Maya rows."]


@pytest.mark.long
async def test_a_root_that_cannot_be_made_or_a_wrong_address_ends_the_command(room: MirrorRoom, tmp_path: Path) -> None:
    room.root = tmp_path / "missing" / "mirror"
    assert "No such file" in await room.run(code=1)
    room.root = tmp_path / "file"
    room.root.write_text("")
    assert "error" in await room.run(code=1)
    room.root = tmp_path / "mirror"
    assert "invalid_request" in await room.run(user=" ", code=1)
    room.env["MNEMA_URL"], url = f"http://127.0.0.1:{free_port()}", room.env["MNEMA_URL"]
    assert "refused" in await room.run(code=1)
    room.env["MNEMA_URL"] = f"{url}/nosuch"
    assert "no_such_route" in await room.run(code=1)


@pytest.mark.long
async def test_a_file_that_is_put_back_restores_its_entry(room: MirrorRoom) -> None:
    kept, changed = await room.add("Crate one."), await room.add("Crate two.")
    bens = (await room.http.post("/memory", json={"user_id": "ben", "category": "tasks", "text": "Ben rows."})).json()
    await room.http.delete(f"/memory/{bens['id']}")
    await room.run()
    files = {room.file(memory_id): room.file(memory_id).read_text() for memory_id in (kept, changed)}
    for file in files:
        file.unlink()
    await room.run()
    for file, content in files.items():
        file.write_text(content.replace("two", "three"))
    room.write(f"{FACTS}/bens.md", f"---\nid: {bens['id']}\n---\n\nBen rows.\n")
    printed = await room.run(code=3)
    assert "0 created, 0 updated, 0 deleted, 2 restored" in printed
    assert f"no entry of this user has the id {bens['id']}" in printed
    assert [(await room.memory(i))["text"] for i in (kept, changed)] == ["Crate one.", "Crate three."]
    assert (await room.memory(bens["id"]))["state"] == "soft_deleted"
