"""Uploads over HTTP: what is taken, replaced, refused, downloaded and deleted."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from app.bootstrap import Application
from app.config.settings import Settings
from app.domain.sources.source import FileState
from app.usecases.sources.uploads import MAX_DOWNLOADS
from tests.api.calls import add_source, refused, sql, upload, verdict
from tests.api.cursors import MALFORMED, pages
from tests.api.raw_connections import answered, raw
from tests.conftest import Database
from tests.factories import Caller, make_caller
from tests.source_rows import store_file
from tests.storage.building import journal_of, remembered

TEXT = b"# Launch\n\nThe demo moves to Friday.\n"


async def put(client: httpx.AsyncClient, source: str, path: str, content: Any = TEXT, **more: Any) -> httpx.Response:
    """Upload a file; return the answer, whatever it is."""
    return await client.post(f"/sources/{source}/files", params={"path": path}, content=content, **more)


@pytest.fixture
async def source(http: httpx.AsyncClient) -> str:
    """Return the id of a source of uploads."""
    made: str = (await add_source(http, name="handbook"))["id"]
    return made


async def test_an_upload_is_stored_and_an_index_job_waits_for_it(http: httpx.AsyncClient, source: str) -> None:
    response = await put(http, source, "guides/launch.md", headers={"Content-Type": "text/html; charset=x"})
    assert response.status_code == 202
    answer = response.json()
    file, job = answer["file"], answer["index_job"]
    assert answer["action"] == "created"
    assert (file["path"], file["kind"], file["size"], file["state"]) == (
        "guides/launch.md",
        "markdown",
        len(TEXT),
        "waiting",
    )
    assert (file["hash"], file["uploaded"], file["chunks"]) == (hashlib.sha256(TEXT).hexdigest(), True, 0)
    assert (job["kind"], job["cause"], job["state"], job["source_id"]) == ("sync", "upload", "queued", source)
    assert (await http.get(f"/sources/{source}/files/{file['id']}")).json() == file
    status = (await http.get(f"/sources/{source}")).json()["status"]
    assert (status["files"], status["waiting"], status["bytes"], status["state"]) == (1, 1, len(TEXT), "indexing")


@pytest.mark.long
async def test_the_same_content_again_does_nothing_and_another_one_replaces_it(
    http: httpx.AsyncClient, source: str, database: Database
) -> None:
    first = await upload(http, source, "a.md", b"one")
    await sql(database, "UPDATE index_jobs SET state = 'done', ended_at = now()")
    again = await put(http, source, "a.md", b"one")
    assert (again.status_code, again.json()) == (200, {"file": first["file"], "action": "unchanged"})
    second = await upload(http, source, "a.md", b"two!")
    assert (second["action"], second["file"]["id"], second["file"]["size"]) == ("replaced", first["file"]["id"], 4)
    assert second["index_job"]["id"] != first["index_job"]["id"]
    download = await http.get(f"/sources/{source}/files/{first['file']['id']}/content")
    assert download.content == b"two!"
    assert (await sql(database, "SELECT count(*) AS n FROM blobs"))[0]["n"] == 1
    same = await upload(http, source, "b.md", b"two!")
    assert same["action"] == "created", "the same content elsewhere is another file"


@pytest.mark.long
async def test_uploads_of_one_path_at_once_leave_one_file_and_one_blob(
    http: httpx.AsyncClient, source: str, database: Database
) -> None:
    contents = [f"version {n}".encode() for n in (1, 1, 2, 3)]  # more are refused: uploads of a tenant are few
    for _round in range(4):
        answers = await asyncio.gather(*(put(http, source, "a.md", content) for content in contents))
        assert {answer.status_code for answer in answers} <= {200, 202}
    [file] = (await http.get(f"/sources/{source}/files")).json()["items"]
    stored = (await http.get(f"/sources/{source}/files/{file['id']}/content")).content
    assert stored in contents
    assert file["hash"] == hashlib.sha256(stored).hexdigest()
    assert (await sql(database, "SELECT count(*) AS n FROM blobs"))[0]["n"] == 1
    assert (await sql(database, "SELECT count(*) AS n FROM index_jobs WHERE state = 'queued'"))[0]["n"] == 1


@pytest.mark.parametrize(
    "path",
    [
        *("../a.md", "a/../b.md", "/a.md", "a//b.md", "./a.md", "a/.", "a/", "/", "..", "a\\b.md", "a\x00.md"),
        *(
            "a\nb.md",
            "a\x1b.md",
            "a\x85.md",
            "\u202egnp.md",
            "x" * 1020 + ".mdxx",
            "é" * 600 + ".md",
            "a/" * 64 + "b.md",
        ),
        *(".git/config", "a/.env", "node_modules/x.js", "notes.md~", ""),
    ],
)
async def test_a_bad_path_is_refused(http: httpx.AsyncClient, source: str, path: str) -> None:
    refused(await put(http, source, path), 422, "invalid_request")
    assert (await http.get(f"/sources/{source}/files")).json()["items"] == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "length", "status"),
    [
        ("sources/{source}/files?path=../a.md", "100000", 422),
        ("sources/{source}/files?path=a.jpg", "100000", 422),
        ("sources/01a1fc6a-13da-7474-b3f6-cb098cae46b6/files?path=a.md", "100000", 404),
        ("sources/{source}/files?path=a.md", str((32 << 20) + 1), 413),
        ("sources/{source}/files?path=a.md", str((1 << 30) + 1), 413),
        ("sources/{source}/files?path=a.md", "9" * 17, 413),
    ],
)
async def test_a_wrong_upload_is_refused_before_its_body_arrives(
    http: httpx.AsyncClient, server: str, caller: Caller, source: str, path: str, length: str, status: int
) -> None:
    key, size = f"Authorization: Bearer {caller.key}", f"Content-Length: {length}"
    async with raw(server, f"POST /{path.format(source=source)}", key, size) as (reader, _writer):
        assert (await answered(reader))[0] == status


@pytest.mark.parametrize("path", ["photo.jpg", "a.exe", "archive.tar.gz", "table.xlsx"])
async def test_a_file_that_no_parser_reads_is_refused(http: httpx.AsyncClient, source: str, path: str) -> None:
    assert "extension" in refused(await put(http, source, path), 422, "unsupported_document")["detail"]


async def test_the_patterns_of_the_source_hold_for_uploads(http: httpx.AsyncClient) -> None:
    source = (await add_source(http, include=["*.md"], exclude=["drafts/"]))["id"]
    assert (await put(http, source, "a/b.md")).status_code == 202
    for path in ("a/b.txt", "drafts/b.md", "a/drafts/c.md"):
        assert "patterns" in refused(await put(http, source, path), 422, "invalid_request")["detail"]


@pytest.mark.parametrize(
    "path", ["README", "Ünïcode/日本 語.txt", "a b/c'd\"e;f.md", "%2e%2e/x.md", "x.PDF", "a.tar.md"]
)
async def test_any_other_path_is_taken_as_it_is(http: httpx.AsyncClient, source: str, path: str) -> None:
    file = (await upload(http, source, path))["file"]
    assert file["path"] == path
    assert (await http.get(f"/sources/{source}/files/{file['id']}/content")).content == b"# Launch\n\nIn May.\n"


class TestSizes:
    """Limits of size, with small ones."""

    pytestmark = pytest.mark.usefixtures("own")

    @pytest.fixture
    def app(self, app: Application) -> Application:
        """Give the application small limits."""
        policy = replace(app.parts.policies.defaults.sources, max_file_bytes=1000, tenant_bytes=2500, max_files=4)
        object.__setattr__(app.parts.policies.defaults, "sources", policy)
        object.__setattr__(app.sources.files, "policy", policy)
        return app

    @pytest.mark.long
    async def test_a_file_of_the_limit_is_taken_and_a_larger_one_is_not(
        self, app: Application, http: httpx.AsyncClient, source: str
    ) -> None:
        async def pieces(count: int) -> AsyncIterator[bytes]:
            for _ in range(count):
                yield b"x" * 100

        assert (await put(http, source, "a.md", b"x" * 1000)).status_code == 202
        refused(await put(http, source, "b.md", b"x" * 1001), 413, "body_too_large")
        refused(await put(http, source, "b.md", pieces(11)), 413, "body_too_large")
        assert (await put(http, source, "b.md", pieces(10))).status_code == 202
        assert len((await http.get(f"/sources/{source}/files")).json()["items"]) == 2

    @pytest.mark.long
    async def test_the_quota_of_the_tenant_counts_all_its_uploads(
        self, app: Application, http: httpx.AsyncClient, server: str, source: str, database: Database
    ) -> None:
        other = (await add_source(http))["id"]
        for place, path in ((source, "a.md"), (other, "b.md")):
            assert (await put(http, place, path, path.encode() * 250)).status_code == 202
        problem = refused(await put(http, source, "c.md", b"x" * 501), 409, "document_quota")
        assert "2000 of 2500 bytes" in problem["detail"]
        assert (await put(http, source, "a.md", b"y" * 1000)).status_code == 202, "a file is replaced, not added"
        await sql(database, "UPDATE files SET state = 'rejected', reason = 'broken'")
        refused(await put(http, source, "c.md", b"x" * 501), 409, "document_quota")
        async with (await make_caller(app)).client(server) as stranger:
            assert (await put(stranger, (await add_source(stranger))["id"], "c.md", b"x" * 900)).status_code == 202
        assert (await http.delete(f"/sources/{other}/files/{await only_file(http, other)}")).status_code == 204
        assert (await put(http, source, "c.md", b"x" * 501)).status_code == 202
        assert len(await sql(database, "SELECT 1 FROM blobs")) == 3, "a refused upload leaves no blob"

    @pytest.mark.long
    async def test_a_source_has_a_limited_number_of_files(
        self, app: Application, http: httpx.AsyncClient, source: str
    ) -> None:
        for number in range(4):
            assert (await put(http, source, f"{number}.md", b"x")).status_code == 202
        refused(await put(http, source, "4.md", b"x"), 422, "too_many_files")
        assert (await put(http, source, "3.md", b"y")).status_code == 202


async def only_file(client: httpx.AsyncClient, source: str) -> str:
    """Return the id of a source's only file."""
    [file] = (await client.get(f"/sources/{source}/files")).json()["items"]
    return str(file["id"])


async def test_a_compressed_upload_is_refused(http: httpx.AsyncClient, source: str) -> None:
    refused(await put(http, source, "a.md", headers={"Content-Encoding": "gzip"}), 415, "unsupported_media_type")


async def test_a_file_is_downloaded_as_an_attachment_that_no_browser_runs(http: httpx.AsyncClient, source: str) -> None:
    page = b"<script>alert(1)</script>"
    file = (await upload(http, source, 'site/a "b" ü.html', page))["file"]["id"]
    response = await http.get(f"/sources/{source}/files/{file}/content")
    assert (response.content, response.headers["Content-Type"]) == (page, "application/octet-stream")
    assert response.headers["Content-Disposition"] == "attachment; filename*=UTF-8''a%20%22b%22%20%C3%BC.html"
    assert "sandbox" in response.headers["Content-Security-Policy"]
    assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_an_empty_file_is_taken(http: httpx.AsyncClient, source: str) -> None:
    file = (await upload(http, source, "empty.md", b""))["file"]
    assert (file["size"], file["state"]) == (0, "waiting")
    assert (await http.get(f"/sources/{source}/files/{file['id']}/content")).content == b""


@pytest.mark.long
async def test_downloads_of_a_tenant_are_few_and_end(http: httpx.AsyncClient, app: Application, source: str) -> None:
    file = (await upload(http, source, "large.txt", b"x" * (16 << 20)))["file"]["id"]
    url = f"/sources/{source}/files/{file}/content"
    streams = [http.stream("GET", url) for _ in range(MAX_DOWNLOADS)]
    opened = [await stream.__aenter__() for stream in streams]
    assert {response.status_code for response in opened} == {200}
    refused(await http.get(url), 503, "tenant_busy")
    for stream in streams:
        await stream.__aexit__(None, None, None)
    async with asyncio.timeout(20):
        while True:
            response = await http.get(url)
            if response.status_code == 200:
                break
            await asyncio.sleep(0.05)
    assert len(response.content) == 16 << 20


async def test_a_file_of_a_folder_has_no_copy(http: httpx.AsyncClient, database: Database, source: str) -> None:
    file = (await upload(http, source))["file"]["id"]
    await sql(database, "UPDATE files SET hosted_uri = NULL")
    assert "folder" in refused(await http.get(f"/sources/{source}/files/{file}/content"), 404, "not_found")["detail"]
    assert (await http.get(f"/sources/{source}/files/{file}")).json()["uploaded"] is False


async def test_a_deleted_file_goes_with_its_chunks_and_its_blob(
    http: httpx.AsyncClient, app: Application, database: Database, caller: Caller, source: str
) -> None:
    view = await app.sources.manage.get_source(caller.scope, UUID(source))
    journal = journal_of(app.parts.uow)
    fields = {"user_id": view.source.user_id, "category": "knowledge", "type": "chunk"}
    chunk = await remembered(journal, caller.scope, "All about launches.", **fields)
    async with app.parts.uow.write(caller.scope) as tx:
        file = await store_file(tx, caller.scope, view.source, "launches", chunk.id)
    assert (await http.delete(f"/sources/{source}/files/{file}")).status_code == 204
    for table in ("files", "chunks", "memories", "blobs", "blob_contents"):
        assert (table, await sql(database, f"SELECT 1 FROM {table}")) == (table, [])
    history = (await http.get(f"/memory/{chunk.id}/history")).json()["items"]
    assert (history[0]["event"], history[0]["actor"]) == ("PURGE", f"key:{caller.scope.key_id}")
    refused(await http.delete(f"/sources/{source}/files/{file}"), 404, "not_found")


@pytest.mark.long
async def test_files_are_listed_by_path_and_state_with_the_reason_of_a_rejection(
    http: httpx.AsyncClient, database: Database, source: str
) -> None:
    paths = [f"{n % 3}/ä {n}.md" for n in range(11)]
    for path in paths:
        await upload(http, source, path)
    found = await pages(http, f"/sources/{source}/files", limit=4)
    ordered = await sql(database, "SELECT path FROM files ORDER BY path")
    assert [file["path"] for page in found for file in page] == [row["path"] for row in ordered]
    await sql(
        database,
        "UPDATE files SET state = 'rejected', reason = 'too_many_pages', detail = '5000 pages' WHERE path = $1",
        paths[4],
    )
    [rejected] = (await http.get(f"/sources/{source}/files", params={"state": "rejected"})).json()["items"]
    assert (rejected["path"], rejected["reason"]) == (paths[4], "too_many_pages")
    assert rejected["message"] == "The document has too many pages. (5000 pages)"
    await sql(
        database, "UPDATE files SET reason = 'of_a_later_version', detail = 'Its own words.' WHERE reason IS NOT NULL"
    )
    [unknown] = (await http.get(f"/sources/{source}/files", params={"state": "rejected"})).json()["items"]
    assert (unknown["reason"], unknown["message"]) == ("of_a_later_version", "Its own words.")
    waiting = await pages(http, f"/sources/{source}/files", limit=3, state="waiting")
    assert len([file for page in waiting for file in page]) == 10
    refused(await http.get(f"/sources/{source}/files", params={"state": "gone"}), 422, "invalid_request")
    for name in ("a word", "not base64", "a number", "too few", "deep", "not UTF-8", "not JSON", "with a NUL"):
        answer = verdict(await http.get(f"/sources/{source}/files", params={"cursor": MALFORMED[name]}))
        assert answer in ((422, "invalid_cursor"), (200, None)), name


@pytest.mark.long
async def test_a_replaced_file_waits_again_and_forgets_its_rejection(
    http: httpx.AsyncClient, database: Database, source: str
) -> None:
    await upload(http, source, "a.pdf", b"%PDF broken")
    await sql(database, "UPDATE files SET state = 'rejected', reason = 'broken', detail = 'cut short'")
    file = (await upload(http, source, "a.pdf", b"%PDF whole"))["file"]
    assert file["state"] == FileState.WAITING.value
    assert not {"reason", "message"} & file.keys()


@pytest.mark.long
async def test_a_key_that_is_revoked_while_the_body_arrives_stores_nothing(
    http: httpx.AsyncClient, app: Application, server: str, caller: Caller, source: str, settings: Settings
) -> None:
    writer = await make_caller(app, ["write"], tenant=caller)
    assert writer.scope.key_id is not None

    async def slowly() -> AsyncIterator[bytes]:
        yield b"x"
        await app.tenancy.tenants.revoke_key(caller.scope.tenant_id, writer.scope.key_id)
        yield b"y"

    async with writer.client(server) as client:
        refused(await put(client, source, "a.md", slowly()), 401, "unauthenticated")
    assert (await http.get(f"/sources/{source}/files")).json()["items"] == []


async def test_an_unknown_source_or_file_is_not_found(http: httpx.AsyncClient, source: str) -> None:
    for path in (f"/sources/{uuid4()}", f"/sources/{source}/files/{uuid4()}", f"/sources/{source}/jobs/{uuid4()}"):
        refused(await http.get(path), 404, "not_found")
    other = (await add_source(http))["id"]
    file = (await upload(http, other))["file"]["id"]
    for method, more in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        refused(await http.request(method, f"/sources/{source}/files/{file}{more}"), 404, "not_found")
    refused(await put(http, str(uuid4()), "a.md"), 404, "not_found")


async def test_an_installation_without_allowed_folders_says_which_setting(http: httpx.AsyncClient) -> None:
    problem = refused(await http.post("/sources", json={"root_path": "/srv/docs"}), 422, "root_not_allowed")
    assert "source_roots" in problem["detail"]


@pytest.mark.long
async def test_the_tree_of_uploads_is_that_of_their_paths(
    http: httpx.AsyncClient, database: Database, source: str
) -> None:
    for path in ("a.md", "b/c.md", "b/d/e.md", "z.md"):
        await upload(http, source, path)
    await sql(database, "UPDATE files SET state = 'rejected', reason = 'empty' WHERE path = 'z.md'")
    found = await pages(http, f"/sources/{source}/tree", limit=2)
    entries = [(e["name"], e["kind"], e["state"], e.get("reason")) for page in found for e in page]
    assert sorted(entries) == [
        ("a.md", "file", "waiting", None),
        ("b", "folder", None, None),
        ("z.md", "file", "rejected", "empty"),
    ]
    inner = (await http.get(f"/sources/{source}/tree", params={"path": "b"})).json()["items"]
    assert {e["path"] for e in inner} == {"b/c.md", "b/d"}
    [rejected] = [e for page in found for e in page if e["name"] == "z.md"]
    assert rejected["message"] == "The document has no text."
    assert (await http.get(f"/sources/{source}/files/{rejected['file_id']}")).json()["path"] == "z.md"
    refused(await http.get(f"/sources/{source}/tree", params={"path": "nowhere"}), 404, "not_found")
    for bad in ("../..", "/etc", "a\x00"):
        refused(await http.get(f"/sources/{source}/tree", params={"path": bad}), 422, "invalid_request")
