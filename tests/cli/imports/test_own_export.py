"""`mnema import --from mnema`: the file of `mnema export`, into another tenant."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mnema_cli.imports import own_export

from app.bootstrap import Application
from tests.api.calls import remember
from tests.cli.in_process import mnema
from tests.factories import Caller, make_caller

pytestmark = pytest.mark.long


def read(file: Path) -> str:
    """Return the text of a file."""
    return file.read_text(encoding="utf-8")


def write(file: Path, text: str) -> Path:
    """Write a file; return it."""
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture
async def file(server: str, caller: Caller, env: dict[str, Any], tmp_path: Path) -> Path:
    """Return an export of maya, who has three memories."""
    async with caller.client(server) as http:
        for number in range(3):
            await remember(http, f"Invoice {number * 100_003} is settled.")
    file = tmp_path / "maya.ndjson"
    assert (await mnema("export", "--user", "maya", "--to", str(file), **env)).exit_code == 0
    return file


async def test_an_export_is_imported_again_and_repeating_it_changes_nothing(
    app: Application, server: str, env: dict[str, Any], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_export, "LINES_A_REQUEST", 2)
    other = await make_caller(app)
    there = env | {"MNEMA_API_KEY": other.key}
    done = await mnema("import", str(file), "--from", "mnema", **there)
    assert (done.exit_code, done.stderr) == (0, "")
    assert re.search(r"left out: \d+ × event", done.stdout)
    assert ", 0 refused" in done.stdout
    again = await mnema("import", str(file), "--from", "mnema", **there)
    assert again.stdout.startswith("0 records imported")
    async with other.client(server) as http:
        assert len((await http.get("/memory", params={"user_id": "maya"})).json()["items"]) == 3
    twin = await make_caller(app)
    renewed = await mnema("import", str(file), "--from", "mnema", "--renew-ids", **env | {"MNEMA_API_KEY": twin.key})
    assert renewed.exit_code == 0
    kept = {record["id"] for record in map(json.loads, read(file).splitlines()) if record["kind"] == "memory"}
    async with twin.client(server) as http:
        items = (await http.get("/memory", params={"user_id": "maya"})).json()["items"]
    assert kept.isdisjoint(item["id"] for item in items)


async def test_refused_lines_are_told_with_their_numbers(
    app: Application, env: dict[str, Any], file: Path, tmp_path: Path
) -> None:
    other = await make_caller(app)
    bad = write(tmp_path / "bad.ndjson", read(file) + "\nnot JSON\n" + '{"kind": "dream"}\n')
    done = await mnema("import", str(bad), "--from", "mnema", **env | {"MNEMA_API_KEY": other.key})
    lines = len(read(file).splitlines())
    assert done.exit_code == 1
    assert f"line {lines + 2}: invalid_request: the line is not JSON" in done.stdout
    assert f"line {lines + 3}: invalid_request: kind:" in done.stdout
    assert done.stderr == "error 2 lines were not imported\n"


async def test_a_dry_run_counts_the_records_and_sends_none(env: dict[str, Any], file: Path, tmp_path: Path) -> None:
    done = await mnema("import", str(file), "--from", "mnema", "--dry-run", **env)
    assert "  memory               3\n" in done.stdout
    headless = write(tmp_path / "headless.ndjson", read(file).split("\n", 1)[1])
    nobody = await mnema("import", str(headless), "--from", "mnema", **env)
    assert (nobody.exit_code, nobody.stdout) == (2, "")
    assert "--user" in nobody.stderr
    strange = await mnema("import", str(file), "--from", "mnema", "--category", "tasks", **env)
    assert (strange.exit_code, strange.stdout) == (2, "")
