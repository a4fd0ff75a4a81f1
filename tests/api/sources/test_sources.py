"""Sources over HTTP: adding, listing, changing, synchronising and removing them, and their jobs."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.bootstrap import Application
from app.config.settings import Settings
from tests.api.calls import add_source, refused, sql, upload
from tests.api.cursors import pages
from tests.conftest import Database
from tests.factories import Caller, make_caller


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """Allow the folders below the test's own."""
    (tmp_path / "handbook").mkdir()
    return settings.model_copy(update={"source_roots": [str(tmp_path)]})


pytestmark = pytest.mark.usefixtures("own")


@pytest.mark.long
async def test_a_folder_becomes_a_source_with_a_queued_index_job(http: httpx.AsyncClient, tmp_path: Path) -> None:
    root = str(tmp_path / "handbook")
    source = await add_source(http, root_path=root, include=["*.md"], exclude=["drafts/"], user_id="maya")
    assert (source["kind"], source["root_path"], source["name"], source["user_id"]) == (
        "folder",
        root,
        "handbook",
        "maya",
    )
    assert (source["category"], source["watch"], source["include"], source["exclude"]) == (
        *("knowledge", True),
        *(["*.md"], ["drafts/"]),
    )
    assert (source["status"]["state"], source["status"]["files"]) == ("indexing", 0)
    job = source["index_job"]
    assert (job["kind"], job["cause"], job["state"], job["files_total"]) == ("sync", "added", "queued", None)
    found = (await http.get(f"/sources/{source['id']}")).json()
    assert found == {name: value for name, value in source.items() if name != "index_job"}
    assert (await http.get(f"/sources/{source['id']}/jobs/{job['id']}")).json() == job


@pytest.mark.long
async def test_a_folder_is_one_source_of_a_user_and_category(http: httpx.AsyncClient, tmp_path: Path) -> None:
    root = str(tmp_path / "handbook")
    first = await add_source(http, root_path=root)
    problem = refused(await http.post("/sources", json={"root_path": f"{root}/"}), 409, "source_exists")
    assert first["id"] in problem["detail"]
    others = [await add_source(http, root_path=root, **more) for more in ({"category": "tasks"}, {"user_id": "maya"})]
    assert len({first["id"], *(other["id"] for other in others)}) == 3
    assert (await http.delete(f"/sources/{first['id']}")).status_code == 202
    assert (await add_source(http, root_path=root))["id"] != first["id"], "a removed one is in nobody's way"


async def test_two_requests_at_once_make_one_source(http: httpx.AsyncClient, tmp_path: Path) -> None:
    body = {"root_path": str(tmp_path / "handbook")}
    answers = await asyncio.gather(*(http.post("/sources", json=body) for _ in range(6)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409, 409, 409]


@pytest.mark.long
async def test_the_same_idempotency_key_adds_one_source(http: httpx.AsyncClient, tmp_path: Path) -> None:
    key = {"Idempotency-Key": "once"}
    for body in ({"name": "uploads"}, {"root_path": str(tmp_path / "handbook")}):
        answers = [await http.post("/sources", json=body, headers=key) for _ in range(2)]
        answers += await asyncio.gather(*(http.post("/sources", json=body, headers=key) for _ in range(4)))
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert len({str(answer.json().get("index_job")) for answer in answers}) == 1
        refused(await http.post("/sources", json={"name": "other"}, headers=key), 409, "idempotency_key_reused")
        key = {"Idempotency-Key": "twice"}
    racing = await asyncio.gather(
        *(http.post("/sources", json={"name": "race"}, headers={"Idempotency-Key": "race"}) for _ in range(6))
    )
    assert len({answer.json()["id"] for answer in racing}) == 1


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/etc", "root_not_allowed"),
        ("relative", "invalid_request"),
        ("{home}/../..", "invalid_request"),
        ("{home}/nowhere", "root_unavailable"),
        ("{home}/.hidden", "root_not_allowed"),
        ("{home}x", "root_not_allowed"),
        ("\x00", "invalid_request"),
        ("", "invalid_request"),
        ("/" + "x" * 5000, "invalid_request"),
    ],
)
async def test_a_root_that_cannot_be_one_is_refused(
    http: httpx.AsyncClient, tmp_path: Path, path: str, code: str
) -> None:
    response = await http.post("/sources", json={"root_path": path.format(home=tmp_path)})
    problem = refused(response, 409 if code == "root_unavailable" else 422, code)
    assert "passwd" not in str(problem)
    assert (await http.get("/sources")).json()["items"] == []


async def test_a_file_is_no_root(http: httpx.AsyncClient, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes")
    refused(await http.post("/sources", json={"root_path": str(tmp_path / "notes.md")}), 409, "root_unavailable")


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"category": "nosuch"}, 422, "unknown_category"),
        ({"category": "procedural"}, 422, "invalid_request"),
        ({"include": ["../*"]}, 422, "invalid_request"),
        ({"include": ["a\x00"]}, 422, "invalid_request"),
        ({"exclude": [""]}, 422, "invalid_request"),
        ({"exclude": ["x"] * 51}, 422, "invalid_request"),
        ({"include": ["x" * 201]}, 422, "invalid_request"),
        ({"name": ""}, 422, "invalid_request"),
        ({"watch": "yes"}, 422, "invalid_request"),
        ({"user_id": "a\n"}, 422, "invalid_request"),
        ({"path": "/srv"}, 422, "invalid_request"),
    ],
)
async def test_a_wrong_field_is_refused(
    http: httpx.AsyncClient, fields: dict[str, Any], status: int, code: str
) -> None:
    refused(await http.post("/sources", json=fields), status, code)


@pytest.mark.long
async def test_a_folder_needs_an_administrator_and_uploads_a_writer(
    app: Application, http: httpx.AsyncClient, server: str, caller: Caller, tmp_path: Path
) -> None:
    writer = await make_caller(app, ["query", "write"], tenant=caller)
    body = {"root_path": str(tmp_path / "handbook")}
    async with writer.client(server) as client:
        refused(await client.post("/sources", json=body), 403, "scope_required")
        source = await add_source(client)
        assert (source["name"], source["kind"], source["watch"]) == ("uploads", "upload", False)
        await upload(client, source["id"])
        refused(await client.delete(f"/sources/{source['id']}"), 403, "scope_required")
        folder = (await http.post("/sources", json={**body, "exclude": ["secret/"]})).json()
        place = f"/sources/{folder['id']}"
        for change in ({"exclude": []}, {"include": ["*.md"]}, {"watch": False}, {"name": "x", "watch": False}):
            refused(await client.patch(place, json=change), 403, "scope_required")
        assert (await client.patch(place, json={"name": "hr"})).json()["exclude"] == ["secret/"]
        assert (await client.patch(f"/sources/{source['id']}", json={"exclude": ["x/"]})).status_code == 200
    assert (await http.get(place)).json()["watch"] is True


async def test_lists_have_pages_and_the_sources_of_one_user(http: httpx.AsyncClient) -> None:
    made = [(await add_source(http, name=f"s{n}", user_id=("ana", "ben")[n % 2]))["id"] for n in range(7)]
    found = await pages(http, "/sources", limit=3)
    assert [s["id"] for page in found for s in page] == made[::-1]
    ana = await pages(http, "/sources", limit=2, user_id="ana")
    assert [s["id"] for page in ana for s in page] == made[::-2]
    assert (await http.get("/sources", params={"user_id": "nobody"})).json()["items"] == []


@pytest.mark.long
async def test_jobs_wait_once_and_are_listed_newest_first(http: httpx.AsyncClient, database: Database) -> None:
    source = (await add_source(http))["id"]
    jobs = []
    for number in range(5):
        first, again = [(await http.post(f"/sources/{source}/sync")).json() for _ in range(2)]
        assert first == again
        jobs.append(first["id"])
        await sql(database, "UPDATE index_jobs SET state = 'done', ended_at = now(), unchanged = $1", number)
    found = await pages(http, f"/sources/{source}/jobs", limit=2)
    assert [job["id"] for page in found for job in page] == jobs[::-1]
    assert found[0][0]["unchanged"] == 4
    other = (await add_source(http))["id"]
    refused(await http.get(f"/sources/{other}/jobs/{jobs[0]}"), 404, "not_found")
    assert (await http.get(f"/sources/{source}")).json()["status"]["state"] == "ready"


@pytest.mark.long
async def test_a_failed_job_shows_in_the_status(http: httpx.AsyncClient, database: Database) -> None:
    source = (await add_source(http))["id"]
    await http.post(f"/sources/{source}/sync")
    await sql(database, "UPDATE index_jobs SET state = 'failed', ended_at = now(), error = 'root_unavailable: gone'")
    status = (await http.get(f"/sources/{source}")).json()["status"]
    assert (status["state"], status["error"]) == ("failed", "root_unavailable: gone")
    assert (await http.post(f"/sources/{source}/sync")).json()["state"] == "queued", "a failed job does not block"


@pytest.mark.long
async def test_a_change_of_patterns_queues_a_job_and_one_of_the_name_none(
    http: httpx.AsyncClient, tmp_path: Path, database: Database
) -> None:
    source = (await add_source(http, root_path=str(tmp_path / "handbook")))["id"]
    await sql(database, "UPDATE index_jobs SET state = 'done', ended_at = now()")
    named = (await http.patch(f"/sources/{source}", json={"name": "book", "watch": False})).json()
    assert (named["name"], named["watch"], "index_job" in named) == ("book", False, False)
    same = (await http.patch(f"/sources/{source}", json={"name": "book"})).json()
    assert same["updated_at"] == named["updated_at"]
    changed = (await http.patch(f"/sources/{source}", json={"exclude": ["old/"]})).json()
    assert (changed["exclude"], changed["name"], changed["index_job"]["cause"]) == (["old/"], "book", "request")
    refused(await http.patch(f"/sources/{source}", json={"include": ["!x"]}), 422, "invalid_request")
    refused(await http.patch(f"/sources/{uuid4()}", json={}), 404, "not_found")
    uploads = (await add_source(http))["id"]
    patched = (await http.patch(f"/sources/{uploads}", json={"exclude": ["old/"], "watch": True})).json()
    assert (patched["exclude"], patched["watch"], "index_job" in patched) == (["old/"], False, False)


@pytest.mark.long
async def test_a_removed_source_takes_nothing_more_and_removing_again_is_the_same_job(
    http: httpx.AsyncClient, database: Database
) -> None:
    source = (await add_source(http))["id"]
    waiting = (await upload(http, source))["index_job"]
    removal = (await http.delete(f"/sources/{source}")).json()
    assert (removal["id"], removal["kind"], removal["cause"]) == (waiting["id"], "removal", "removed")
    assert (await http.delete(f"/sources/{source}")).json() == removal
    assert (await http.get(f"/sources/{source}")).json()["status"]["state"] == "removing"
    refused(await http.post(f"/sources/{source}/sync"), 409, "source_removed")
    refused(await http.patch(f"/sources/{source}", json={"name": "x"}), 409, "source_removed")
    response = await http.post(f"/sources/{source}/files", params={"path": "a.md"}, content=b"a")
    refused(response, 409, "source_removed")
    await sql(database, "UPDATE index_jobs SET state = 'failed', ended_at = now()")
    again = (await http.delete(f"/sources/{source}")).json()
    assert (again["id"] != removal["id"], again["kind"]) == (True, "removal"), "a failed removal can be tried again"


@pytest.mark.long
async def test_a_removal_while_a_job_runs_waits_behind_it(http: httpx.AsyncClient, database: Database) -> None:
    source = (await add_source(http))["id"]
    running = (await upload(http, source))["index_job"]
    await sql(database, "UPDATE index_jobs SET state = 'running'")
    removal = (await http.delete(f"/sources/{source}")).json()
    assert (removal["id"] != running["id"], removal["kind"], removal["state"]) == (True, "removal", "queued")


@pytest.mark.long
async def test_the_tree_of_a_folder_shows_it_as_it_is_now(http: httpx.AsyncClient, tmp_path: Path) -> None:
    root = tmp_path / "handbook"
    (root / "guides").mkdir()
    (root / "a.md").write_text("# A")
    (root / "b.log").write_text("b")
    (root / "out").symlink_to("/etc/passwd")
    source = (await add_source(http, root_path=str(root), exclude=["*.log"]))["id"]
    items = (await http.get(f"/sources/{source}/tree")).json()["items"]
    shown = {entry["name"]: (entry["kind"], entry["state"]) for entry in items}
    assert shown["a.md"] == ("file", "new")
    assert shown["b.log"] == ("file", "excluded")
    assert (shown["guides"], shown["out"][0]) == (("folder", None), "link")
    refused(await http.get(f"/sources/{source}/tree", params={"path": "out"}), 404, "not_found")
    (root / "guides").rmdir()
    refused(await http.get(f"/sources/{source}/tree", params={"path": "guides"}), 404, "not_found")
    root.rename(tmp_path / "moved")
    refused(await http.get(f"/sources/{source}/tree"), 409, "root_unavailable")
