"""`mnema source`: folders and uploads from a shell, with index jobs that really run."""

import os
from pathlib import Path
from typing import Any

import pytest

from app.bootstrap import Application
from app.config.settings import Settings
from tests.api.calls import sql
from tests.cli.in_process import mnema
from tests.conftest import Database
from tests.factories import Caller, make_caller

pytestmark = pytest.mark.usefixtures("own")
GUIDE = "# Setup\n\nTurn the tap to the left.\n\n## Leaks\n\nCall Ana if the tap leaks.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two documents and three files that are skipped."""
    root = tmp_path / "manuals"
    (root / "guides").mkdir(parents=True)
    (root / "guides" / "tap.md").write_text(GUIDE)
    (root / "notes.txt").write_text("The cellar is dry.")
    (root / "photo.jpg").write_bytes(b"\xff\xd8")
    (root / "[bold]odd.exe").write_bytes(b"MZ")
    (root / "empty.md").write_text("")
    (root / ".hidden.md").write_text("secret")
    return root


@pytest.fixture
def settings(settings: Settings, folder: Path) -> Settings:
    """Allow the folder and what is beside it."""
    return settings.model_copy(update={"source_roots": [str(folder)]})


def empty_folder(folder: Path) -> None:
    """Delete all files of a folder."""
    for file in folder.rglob("*"):
        if file.is_file():
            file.unlink()


async def said(*args: object, env: dict[str, Any]) -> str:
    """Return the output of a command that must succeed."""
    done = await mnema("source", *map(str, args), **env)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.long
async def test_a_folder_is_indexed_listed_changed_and_removed(
    env: dict[str, Any], folder: Path, worker: None, database: Database
) -> None:
    added = await said("add", folder, "--category", "knowledge", "--wait", env=env)
    lines = added.splitlines()
    source = lines[0].split()[2]
    assert lines[0] == f"added source {source}  manuals"
    assert "files 2 added, 0 changed, 0 unchanged, 0 removed, 3 rejected" in lines[1]
    assert "skipped 2: No parser reads files with this extension." in added
    assert "  [bold]odd.exe" in lines
    assert "skipped 1: The document has no text." in added
    [_, row] = (await said("list", env=env)).splitlines()
    assert row.split()[:8] == [source, "manuals", "folder", "knowledge", "_shared", "ready", "5", "3"]
    status = await said("status", source, env=env)
    assert f"root      {folder}" in status
    assert "files     5 (2 indexed, 0 waiting, 3 rejected)" in status
    assert status.splitlines()[-1].split()[1:6] == ["sync", "added", "done", "5/5", "3"]
    files = await said("files", source, "--state", "rejected", env=env)
    assert [line.split()[0] for line in files.splitlines()[1:]] == ["[bold]odd.exe", "empty.md", "photo.jpg"]
    assert "guides/tap.md" in await said("files", source, env=env)
    (folder / "notes.txt").unlink()
    (folder / "guides" / "tap.md").write_text(GUIDE.replace("Ana", "Ben"))
    changed = await said("sync", source, "--wait", env=env)
    assert "files 0 added, 1 changed, 0 unchanged, 1 removed, 3 rejected" in changed
    refused = await mnema("source", "remove", source, **env)
    assert refused.exit_code != 0, "nobody said yes"
    assert "removed source" in await said("remove", source, "--yes", "--wait", env=env)
    assert (await said("list", env=env)).splitlines()[1:] == []
    for table in ("sources", "files", "chunks", "memories"):
        assert await sql(database, f"SELECT 1 FROM {table}") == []
    assert (folder / "photo.jpg").read_bytes() == b"\xff\xd8"


async def test_a_dry_run_says_what_would_be_done_and_changes_nothing(env: dict[str, Any], folder: Path) -> None:
    for more in ((), ("--upload",)):
        told = await said("add", folder, "--dry-run", "--exclude", "guides/", *more, env=env)
        assert told.startswith("the server was not asked: ") is (not more)
        assert "would index 2 files with 18 bytes, and skip 2" in told.splitlines()
        assert "  notes.txt" in told.splitlines()
        assert "tap.md" not in told
        assert "hidden" not in told
        assert "skipped 2: No parser reads files with this extension." in told
        assert told.endswith("nothing was changed\n")
    assert (await said("list", env=env)).splitlines()[1:] == []
    missing = await mnema("source", "add", str(folder / "nowhere"), "--dry-run", **env)
    assert (missing.exit_code, "root_unavailable" in missing.stderr) == (1, True)


@pytest.mark.long
async def test_the_files_of_this_machine_are_uploaded_and_kept_in_step(
    env: dict[str, Any], folder: Path, worker: None
) -> None:
    added = await said("add", folder, "--upload", "--user", "maya", "--wait", env=env)
    source = added.split()[2]
    assert "uploaded: 3 created, 0 replaced, 0 unchanged; 2 skipped" in added
    assert "1 rejected" in added
    assert "skipped 1: The document has no text." in added
    again = await said("sync", source, folder, "--wait", env=env)
    assert "uploaded: 0 created, 0 replaced, 3 unchanged; 2 skipped" in again
    assert again.endswith("nothing to index\n")
    (folder / "notes.txt").unlink()
    (folder / "guides" / "tap.md").write_text(GUIDE.replace("Ana", "Ben"))
    changed = await said("sync", source, folder, "--wait", env=env)
    assert "uploaded: 0 created, 1 replaced, 1 unchanged" in changed
    assert "deleted 1 files that are gone" in changed
    listed = [line.split()[0] for line in (await said("files", source, env=env)).splitlines()[1:]]
    assert listed == ["empty.md", "guides/tap.md"]


@pytest.mark.long
async def test_an_emptied_folder_deletes_nothing_unless_somebody_says_yes(
    env: dict[str, Any], folder: Path, worker: None
) -> None:
    source = (await said("add", folder, "--upload", "--wait", env=env)).split()[2]
    empty_folder(folder)
    held = await mnema("source", "sync", source, str(folder), **env)
    assert held.exit_code != 0
    assert len((await said("files", source, env=env)).splitlines()) == 4
    assert "deleted 3 files" in await said("sync", source, folder, "--yes", env=env)
    assert len((await said("files", source, env=env)).splitlines()) == 1


async def test_a_folder_that_is_not_allowed_names_the_setting_and_the_way_without_it(
    env: dict[str, Any], tmp_path: Path
) -> None:
    refused = await mnema("source", "add", str(tmp_path), **env)
    assert refused.exit_code == 1
    for word in ("root_not_allowed", "MNEMA_SOURCE_ROOTS", "source_roots", "--upload"):
        assert word in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


@pytest.mark.long
async def test_a_failed_job_ends_with_its_error(env: dict[str, Any], folder: Path, worker: None) -> None:
    source = (await said("add", folder, "--wait", env=env)).split()[2]
    os.rename(folder, folder.parent / "moved")
    failed = await mnema("source", "sync", source, "--wait", **env)
    assert (failed.exit_code, "root_unavailable" in failed.stderr) == (1, True)
    assert "failed" in await said("status", source, env=env)


@pytest.mark.long
async def test_what_cannot_be_is_one_line(
    env: dict[str, Any], folder: Path, app: Application, caller: Caller, worker: None
) -> None:
    source = (await said("add", folder, "--wait", env=env)).split()[2]
    reader = await make_caller(app, ["query"], tenant=caller)
    weak = env | {"MNEMA_API_KEY": reader.key}
    cases = [
        (("sync", source, str(folder)), env, "error the workers read the folder of this source"),
        (("add", str(folder)), env, f"error 409 source_exists: the folder is source {source} already"),
        (("add", str(folder), "--upload", "--category", "nosuch"), env, "error 422 unknown_category: "),
        (("add", str(folder), "--upload", "--include", "../x"), env, "error "),
        (("remove", source, "--yes"), weak, "error 403 scope_required: "),
        (("status", "01a1fc6a-13da-7474-b3f6-cb098cae46b6"), env, "error 404 not_found: no such source"),
        (("list",), env | {"MNEMA_URL": "http://127.0.0.1:1"}, "error http://127.0.0.1:1"),
    ]
    for args, where, start in cases:
        done = await mnema("source", *args, **where)
        assert (done.exit_code, done.stderr.startswith(start)) == (1, True), (args, done.stderr)
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert (await mnema("source", "files", source, "--state", "lost", **env)).exit_code == 2


@pytest.mark.long
async def test_a_file_that_cannot_be_read_is_skipped_with_its_reason(env: dict[str, Any], folder: Path) -> None:
    (folder / "gone.md").symlink_to("/etc/passwd")
    (folder / "bad\nname.md").write_text("x")
    os.mkfifo(folder / "pipe.md")
    told = await said("add", folder, "--upload", env=env)
    assert "passwd" not in told
    assert "uploaded: 3 created" in told
    assert "bad\\nname.md" in told
