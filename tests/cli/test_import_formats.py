"""`mnema import --from` with made-up exports of another product, parsed alone and imported into a real server."""

import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.cli.import_formats import BadExport, Export, ImportChoices, read_mem0
from tests.acceptance.processes import mnema
from tests.conftest import Database
from tests.factories import Caller

KNOWN = ("preferences", "tasks", "recent_activity", "activity")
ROW: dict[str, Any] = {
    "id": "0b0a7c7e-5c5e-4d6b-9d8e-0f6d2f4b1a01",
    "memory": "Prefers the window seat on long train rides.",
    "user_id": "ines",
    "agent_id": "travel-desk",
    "run_id": "trip-7",
    "hash": "6f1ed002ab5595859014ebf0951522d9",
    "metadata": {"channel": "phone", "id": 7},
    "categories": ["travel", "preferences"],
    "created_at": "2025-03-02T09:15:00.123456-08:00",
    "updated_at": "2025-03-04T10:00:00-08:00",
}


def row(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"m{number}", "memory": f"Ines keeps fact number {number}.", "user_id": "ines"} | fields


def read(found: Any, user: str | None = None) -> Export:
    return read_mem0(found if isinstance(found, str) else json.dumps(found), ImportChoices(KNOWN, "activity", user))


def test_a_memory_keeps_who_when_and_where_it_comes_from() -> None:
    [item] = read({"results": [ROW]}).items
    assert item.body == {
        "user_id": "ines",
        "agent_id": "travel-desk",
        "run_id": "trip-7",
        "text": "Prefers the window seat on long train rides.",
        "category": "preferences",
        "created_at": "2025-03-02T09:15:00.123456-08:00",
        "metadata": {
            "imported_from": "mem0",
            "id": "0b0a7c7e-5c5e-4d6b-9d8e-0f6d2f4b1a01",
            "updated_at": "2025-03-04T10:00:00-08:00",
            "categories": ["travel", "preferences"],
            "metadata": {"channel": "phone", "id": 7},
        },
    }


def test_nulls_are_as_absent() -> None:
    nulls = dict.fromkeys(("agent_id", "run_id", "metadata", "categories", "created_at", "updated_at"))
    [item] = read([row(1, **nulls)]).items
    assert item.body is not None
    assert set(item.body) == {"user_id", "text", "category", "metadata"}
    assert item.body["metadata"] == {"imported_from": "mem0", "id": "m1"}


@pytest.mark.parametrize(
    ("fields", "category", "mapped"),
    [
        ({"categories": ["travel", "Tasks"]}, "tasks", True),
        ({"categories": ["Recent Activity"]}, "recent_activity", True),
        ({"metadata": {"category": "preferences"}}, "preferences", True),
        ({"categories": ["tasks"], "metadata": {"category": "preferences"}}, "tasks", True),
        ({"categories": ["travel"]}, "activity", False),
        ({"categories": "tasks", "metadata": ["preferences"]}, "activity", False),
        ({"categories": [None, 3]}, "activity", False),
        ({}, "activity", False),
    ],
)
def test_a_category_is_kept_when_it_is_known_here(fields: dict[str, Any], category: str, mapped: bool) -> None:
    [item] = read([row(1, **fields)]).items
    assert item.body is not None
    assert (item.body["category"], item.mapped) == (category, mapped)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"results": [row(1), row(2)]}),
        json.dumps({"results": [row(1), row(2)]}, indent=2),
        json.dumps([row(1), row(2)]),
        json.dumps([{"results": [row(1)]}, {"results": [row(2)]}]),
        f"{json.dumps(row(1))}\n\n{json.dumps(row(2))}\n",
        f"{json.dumps({'results': [row(1)]})}\n{json.dumps({'results': [row(2)]})}",
    ],
    ids=["answer", "indented", "list", "list of pages", "lines", "lines of pages"],
)
def test_every_way_to_save_the_answer_reads_the_same(text: str) -> None:
    assert [(item.number, item.body) for item in read(text).items] == [
        (item.number, item.body) for item in read([row(1), row(2)]).items
    ]


def test_items_come_oldest_first_under_their_number_in_the_file() -> None:
    times = ["2025-05-01T00:00:00Z", "nonsense", "2025-01-01T02:00:00", None, "2025-01-01T00:00:00-05:00"]
    items = read([row(n, created_at=at) for n, at in enumerate(times, 1)]).items
    assert [item.number for item in items] == [3, 5, 1, 2, 4]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("text", "not a JSON object"),
        (["text"], "not a JSON object"),
        ({"memory": "x", "user_id": "u"}, "missing id"),
        ({"id": "", "memory": None, "user_id": "u"}, "missing id, memory"),
        ({"id": "a", "memory": "x", "agent_id": "helpdesk"}, "missing user_id; name the user with --user"),
    ],
)
def test_an_item_that_is_no_memory_says_so(bad: Any, problem: str) -> None:
    found = {item.number: item.problem for item in read([row(1), bad]).items}
    assert found == {1: "", 2: problem}


def test_a_user_can_be_given_for_memories_that_have_none() -> None:
    items = read([row(1), {"id": "a", "memory": "x", "agent_id": "helpdesk"}], user="desk").items
    assert [item.body and item.body["user_id"] for item in items] == ["ines", "desk"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("Dear diary", "not JSON"),
        ('{"results": [', "not JSON"),
        (f"{json.dumps(row(1))}\n{{nonsense", "item 2 is not JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_export_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadExport, match=problem):
        read(text)


def test_what_is_not_taken_over_is_noted() -> None:
    page = {"results": [row(1, expiration_date="2030-01-01")], "count": 40, "next": "https://mem0.example/?page=2"}
    assert read(page | {"relations": [{"source": "ines"}]}).notes == [
        "mem0 has more pages than this file (40 memories in all)",
        "mem0's graph relations are not imported",
        "memories with an expiration date: 1 (it is kept only in their metadata)",
    ]
    assert read([page, page | {"next": None, "results": [row(2)]}]).notes[0].startswith("memories with an expiration")
    assert read([row(1)]).notes == []


def test_a_changed_memory_is_another_request_and_an_equal_one_the_same() -> None:
    keys = [
        read([row(1, **fields)]).items[0].content_key for fields in ({}, {}, {"memory": "Another fact."}, {"id": "m2"})
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


@pytest.fixture
def env(server: str, caller: Caller, tmp_path: Path) -> dict[str, Any]:
    """Return the environment with the server's address."""
    return {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path / "home"}


async def stored(database: Database) -> list[dict[str, Any]]:
    """Return every active memory in the order of writing."""
    connection = await asyncpg.connect(database.superuser)
    try:
        rows = await connection.fetch("SELECT * FROM memories WHERE state = 'active' ORDER BY id")
    finally:
        await connection.close()
    return [dict(row) for row in rows]


SAMPLE = [
    row(1, memory="Ines moved to Porto in spring.", created_at="2025-04-01T08:00:00Z", categories=["misc"]),
    ROW,
    row(3, memory=" \t", created_at="2025-01-01"),
    row(4, memory="Renew the rail pass. " * 20, categories=["tasks"]),
    "nonsense",
    row(6, memory="Answers mail in the evening.", created_at="2999-01-01"),
    {"id": "m7", "memory": "The desk closes at six.", "agent_id": "travel-desk"},
]


async def test_an_export_is_imported_once_however_often_and_under_whatever_name(
    env: dict[str, Any], database: Database, tmp_path: Path
) -> None:
    file, again = tmp_path / "mem0.json", tmp_path / "copy.json"
    file.write_text(json.dumps({"results": SAMPLE}, indent=2))
    again.write_text(json.dumps(SAMPLE[::-1]))
    done = await mnema("import", str(file), "--from", "mem0", **env)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "2 memories stored from mem0.json, 5 skipped"
    said = [line.strip().split(": ") for line in lines[1:6]]
    assert [(item, why) for item, why, *_more in said] == [
        ("item 3", "422 empty_text"),
        ("item 4", "422 text_too_long"),
        ("item 5", "not a JSON object"),
        ("item 6", "422 invalid_request"),
        ("item 7", "missing user_id; name the user with --user"),
    ]
    where = (
        "have no category that Mnema knows; they got activity (the category of turns; choose another with --category)"
    )
    assert lines[6:] == [f"  3 of 7 {where}"]
    found = await stored(database)
    assert [(each["text"], each["category"], each["type"]) for each in found] == [
        (ROW["memory"], "preferences", "semantic"),
        ("Ines moved to Porto in spring.", "activity", "semantic"),
    ]
    first = found[0]
    assert (first["user_id"], first["agent_id"], first["run_id"]) == ("ines", "travel-desk", "trip-7")
    assert first["created_at"].isoformat() == "2025-03-02T17:15:00.123456+00:00"
    assert json.loads(first["metadata"])["id"] == ROW["id"]
    for repeated in (file, again):
        assert "2 memories stored" in (await mnema("import", str(repeated), "--from", "mem0", **env)).stdout
    assert await stored(database) == found


async def test_user_category_and_trim_take_in_what_was_skipped(
    env: dict[str, Any], database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps(SAMPLE))
    await mnema("import", str(file), "--from", "mem0", "--category", "history", **env)
    options = ("--category", "history", "--user", "desk", "--trim")
    done = await mnema("import", str(file), "--from", "mem0", *options, **env)
    assert "4 memories stored from mem0.json, 3 skipped" in done.stdout
    assert "have no category that Mnema knows; they got history (from --category)" in done.stdout
    found = {each["text"][:20]: (each["user_id"], each["category"]) for each in await stored(database)}
    assert found == {
        ROW["memory"][:20]: ("ines", "preferences"),
        "Ines moved to Porto ": ("ines", "history"),
        "Renew the rail pass.": ("ines", "tasks"),
        "The desk closes at s": ("desk", "history"),
    }
    assert len(await stored(database)) == 4


async def test_what_cannot_be_imported_is_said_and_fails(env: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "mem0.json"
    for text, options, said, code in [
        (b"\xff\xfe", ("--from", "mem0"), "mem0.json is not an export of mem0: ", 1),
        (b"nonsense", ("--from", "mem0"), "mem0.json is not an export of mem0: not JSON", 1),
        (json.dumps([row(1)]).encode(), ("--from", "mem0", "--category", "nowhere"), "nothing was imported", 1),
        (json.dumps([row(1)]).encode(), ("--trim",), "--category, --user and --trim need --from", 2),
    ]:
        file.write_bytes(text)
        done = await mnema("import", str(file), *options, **env)
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    file.write_text('{"results": []}')
    empty = await mnema("import", str(file), "--from", "mem0", **env)
    assert (empty.returncode, empty.stdout) == (0, "0 memories stored from mem0.json, 0 skipped\n")
