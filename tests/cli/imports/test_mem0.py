"""`mnema import --from` with made-up exports of another product, parsed alone and imported into a real server."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from mnema_cli.imports.mem0 import read_mem0
from mnema_cli.imports.records import Bad, Choices, Found, Note, SourceFailed, Write

from tests.cli.imports.conftest import Stored
from tests.cli.in_process import mnema

Read = Callable[..., list[Found]]
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


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that reads a saved answer."""

    def read_saved(found: Any, user: str | None = None) -> list[Found]:
        file = tmp_path / "saved.json"
        file.write_text(found if isinstance(found, str) else json.dumps(found))
        return list(read_mem0(file, Choices("mem0", KNOWN, "activity", "activity", user=user)))

    return read_saved


def writes(found: Iterable[Found]) -> list[Write]:
    return [each for each in found if isinstance(each, Write)]


def notes(found: Iterable[Found]) -> list[str]:
    return [each.text for each in found if isinstance(each, Note)]


def test_a_memory_keeps_who_when_and_where_it_comes_from(read: Read) -> None:
    [item] = writes(read({"results": [ROW]}))
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


def test_nulls_are_as_absent(read: Read) -> None:
    nulls = dict.fromkeys(("agent_id", "run_id", "metadata", "categories", "created_at", "updated_at"))
    [item] = writes(read([row(1, **nulls)]))
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
def test_a_category_is_kept_when_it_is_known_here(
    read: Read, fields: dict[str, Any], category: str, mapped: bool
) -> None:
    [item] = writes(read([row(1, **fields)]))
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
def test_every_way_to_save_the_answer_reads_the_same(read: Read, text: str) -> None:
    assert read(text) == read([row(1), row(2)])


def test_items_come_oldest_first_under_their_number_in_the_file(read: Read) -> None:
    times = ["2025-05-01T00:00:00Z", "nonsense", "2025-01-01T02:00:00", None, "2025-01-01T00:00:00-05:00"]
    found = writes(read([row(n, created_at=at) for n, at in enumerate(times, 1)]))
    assert [each.place for each in found] == [f"item {number}" for number in (3, 5, 1, 2, 4)]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("text", "not a JSON object"),
        (["text"], "not a JSON object"),
        ({"memory": "x", "user_id": "u"}, "missing id"),
        ({"id": "", "memory": None, "user_id": "u"}, "missing id, memory"),
        ({"id": "a", "memory": "x", "agent_id": "helpdesk"}, "missing user; name the user with --user"),
    ],
)
def test_an_item_that_is_no_memory_says_so(read: Read, bad: Any, problem: str) -> None:
    good, found = read([row(1), bad])
    assert isinstance(good, Write)
    assert found == Bad("item 2", problem)


def test_a_user_can_be_given_for_memories_that_have_none(read: Read) -> None:
    found = read([row(1), {"id": "a", "memory": "x", "agent_id": "helpdesk"}], user="desk")
    assert [each.body["user_id"] for each in writes(found)] == ["ines", "desk"]


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
def test_a_file_that_is_no_export_is_refused(read: Read, text: str, problem: str) -> None:
    with pytest.raises(SourceFailed, match=problem):
        read(text)


def test_what_is_not_taken_over_is_noted(read: Read) -> None:
    page = {"results": [row(1, expiration_date="2030-01-01")], "count": 40, "next": "https://mem0.example/?page=2"}
    assert notes(read(page | {"relations": [{"source": "ines"}]})) == [
        "mem0 has more pages than this file (40 memories in all)",
        "mem0's graph relations are not imported",
    ]
    assert notes(read([page, page | {"next": None, "results": [row(2)]}])) == []
    assert notes(read([row(1)])) == []


def test_an_expiration_date_is_taken_over(read: Read) -> None:
    [found] = read([row(1, expiration_date="2030-01-01")])
    assert isinstance(found, Write)
    assert found.body["expires_at"] == "2030-01-02"


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
    env: dict[str, Any], stored: Stored, tmp_path: Path
) -> None:
    file, again = tmp_path / "mem0.json", tmp_path / "copy.json"
    file.write_text(json.dumps({"results": SAMPLE}, indent=2))
    again.write_text(json.dumps(SAMPLE[::-1]))
    done = await mnema("import", str(file), "--from", "mem0", **env)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "2 memories stored from mem0.json, 0 already imported, 0 left out, 5 failed",
        "  categories: activity 1, preferences 1",
        "  without a category that Mnema knows: 1; they get activity (see --category and --map-category)",
    ]
    assert {tuple(line.removeprefix("  failed: ").split(": ")[:2]) for line in lines[3:]} == {
        ("item 3", "missing text"),
        ("item 4", "422 text_too_long"),
        ("item 5", "not a JSON object"),
        ("item 6", "422 invalid_request"),
        ("item 7", "missing user; name the user with --user"),
    }
    found = await stored()
    assert [(each["text"], each["category"], each["type"]) for each in found] == [
        (ROW["memory"], "preferences", "semantic"),
        ("Ines moved to Porto in spring.", "activity", "semantic"),
    ]
    first = found[0]
    assert (first["user_id"], first["agent_id"], first["run_id"]) == ("ines", "travel-desk", "trip-7")
    assert first["created_at"] == "2025-03-02T17:15:00.123456Z"
    assert first["metadata"]["id"] == ROW["id"]
    repeated = await mnema("import", str(file), "--from", "mem0", **env)
    assert "nothing stored from mem0.json, 2 already imported" in repeated.stdout
    copied = await mnema("import", str(again), "--from", "mem0", **env)  # another file: the server's keys decide
    assert "2 memories stored from copy.json" in copied.stdout
    assert await stored() == found


async def test_user_category_and_trim_take_in_what_failed(env: dict[str, Any], stored: Stored, tmp_path: Path) -> None:
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps(SAMPLE))
    await mnema("import", str(file), "--from", "mem0", "--category", "history", **env)
    options = ("--category", "history", "--user", "desk", "--trim")
    done = await mnema("import", str(file), "--from", "mem0", *options, **env)
    assert "2 memories stored from mem0.json, 2 already imported, 0 left out, 3 failed" in done.stdout
    assert {each["text"][:20]: (each["user_id"], each["category"]) for each in await stored()} == {
        ROW["memory"][:20]: ("ines", "preferences"),
        "Ines moved to Porto ": ("ines", "history"),
        "Renew the rail pass.": ("ines", "tasks"),
        "The desk closes at s": ("desk", "history"),
    }


async def test_what_cannot_be_imported_is_said_and_fails(env: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "mem0.json"
    for text, said in [
        (b"\xff\xfe", "mem0.json is not an export of mem0: "),
        (b"nonsense", "mem0.json is not an export of mem0: not JSON"),
    ]:
        file.write_bytes(text)
        done = await mnema("import", str(file), "--from", "mem0", **env)
        assert (done.exit_code, said in done.stderr) == (1, True), done.output
        assert "run the same command again" not in done.stderr
    file.write_text('{"results": []}')
    empty = await mnema("import", str(file), "--from", "mem0", **env)
    assert (empty.exit_code, empty.stdout) == (
        0,
        "nothing stored from mem0.json, 0 already imported, 0 left out, 0 failed\n",
    )


async def test_an_id_that_is_no_text_fails_alone(env: dict[str, Any], stored: Stored, tmp_path: Path) -> None:
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps([row(1) | {"id": "\ud800"}, row(2)]))
    done = await mnema("import", str(file), "--from", "mem0", **env)
    assert "1 memory stored from mem0.json, 0 already imported, 0 left out, 1 failed" in done.stdout
    assert "failed: item 1: cannot be sent: " in done.stdout
    assert [each["metadata"]["id"] for each in await stored()] == ["m2"]
