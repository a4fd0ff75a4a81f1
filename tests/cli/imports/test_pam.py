"""`mnema import --from pam`: a memory store of Portable AI Memory, which the format's own package accepts."""

import json
from pathlib import Path
from typing import Any

import pytest
from mnema_cli.imports.pam import read_pam
from mnema_cli.imports.records import Bad, Choices, Found, LeftOut, Note, SourceFailed, Write

from tests.cli.imports.conftest import Stored
from tests.cli.in_process import mnema


def memory(name: str, content: str, at: str, **fields: Any) -> dict[str, Any]:
    """Return a memory of a store."""
    times = {"created_at": at} | fields.pop("temporal", {})
    origin = {"platform": "claude", "extraction_method": "api_export", "extracted_at": "2025-03-05T10:00:00Z"}
    row = {"id": name, "type": "preference", "status": "active", "content": content, "tags": ["travel"]}
    return row | {"content_hash": f"sha256:{'0' * 64}", "temporal": times, "provenance": origin} | fields


SPAN = {"valid_from": "2025-03-01T00:00:00Z", "valid_until": "2035-03-01T00:00:00Z"}
STORE: dict[str, Any] = {
    "schema": "portable-ai-memory",
    "schema_version": "1.0",
    "owner": {"id": "ines"},
    "memories": [
        memory("m2", "Ines moved to Porto.", "2025-03-04T10:00:00Z", type="identity", temporal=SPAN),
        memory("m1", "Prefers the window seat on long train rides.", "2025-03-02T09:15:00Z"),
        memory("m3", "Drinks tea.", "2025-03-04T10:00:00Z", status="retracted"),
        memory("m4", "Books the venue.", "2025-03-06T10:00:00Z", type="custom", custom_type="tasks"),
    ],
    "relations": [{"id": "r1", "from": "m1", "to": "m2", "type": "related_to", "created_at": "2025-03-04T10:00:00Z"}],
}


def read(folder: Path, store: Any) -> list[Found]:
    """Return what is found in a store."""
    file = folder / "memory-store.json"
    file.write_text(store if isinstance(store, str) else json.dumps(store), encoding="utf-8")
    return list(read_pam(file, Choices("pam", ("tasks", "activity"), "activity", "activity")))


def test_active_memories_come_oldest_first_with_times_and_category(tmp_path: Path) -> None:
    found = read(tmp_path, STORE)
    writes = [each for each in found if isinstance(each, Write)]
    assert [write.identity for write in writes] == ["m1", "m2", "m4"]
    assert [write.body["category"] for write in writes] == ["activity", "activity", "tasks"]
    body = writes[1].body
    assert (body["user_id"], body["text"], body["tags"]) == ("ines", "Ines moved to Porto.", ["travel"])
    assert (body["valid_from"], body["valid_to"]) == (SPAN["valid_from"], SPAN["valid_until"])
    assert body["metadata"]["type"] == "identity"
    assert body["metadata"]["provenance"]["platform"] == "claude"
    assert [each.reason for each in found if isinstance(each, LeftOut)] == ["memories that are not active"]
    notes = [each.text for each in found if isinstance(each, Note)]
    assert notes == ["1 relations: not imported", "hashes and signatures are not checked"]


def test_bad_memories_fail_alone(tmp_path: Path) -> None:
    good = STORE["memories"][1]
    found = read(tmp_path, STORE | {"memories": [7, good | {"content": ""}, {"id": 1}, good, good | {"temporal": []}]})
    assert [each.place for each in found if isinstance(each, Bad)] == ["memories[0]", "memories[1]", "memories[2]"]
    assert len([each for each in found if isinstance(each, Write)]) == 2


@pytest.mark.parametrize(
    "store",
    [
        "",
        "{",
        "[" * 100_000,
        [],
        STORE | {"schema": "other"},
        STORE | {"schema_version": "2.0"},
        STORE | {"memories": 1},
    ],
)
def test_a_file_that_is_no_store_of_pam_is_refused_as_a_whole(tmp_path: Path, store: Any) -> None:
    with pytest.raises(SourceFailed):
        read(tmp_path, store)


@pytest.mark.long
async def test_a_store_is_imported_into_a_server(env: dict[str, Any], tmp_path: Path, stored: Stored) -> None:
    read(tmp_path, STORE)
    done = await mnema("import", str(tmp_path / "memory-store.json"), "--from", "pam", "--category", "activity", **env)
    assert done.exit_code == 0, done.stderr
    items = await stored()
    assert [item["text"] for item in items] == [STORE["memories"][n]["content"] for n in (1, 0, 3)]
    assert {item["origin"] for item in items} == {"import"}
