"""The page Sources: the list, one source with its files and jobs, uploads, indexing, and its removal."""

from uuid import UUID

import pytest
from mnema_client import AsyncMnema, NoAnswer
from mnema_wire.sources import DocumentSource, IndexJob
from nicegui import ui
from nicegui.elements.upload_files import SmallFileUpload
from nicegui.testing import User

from app.bootstrap import Application
from tests.api.calls import sql
from tests.conftest import Database
from tests.console.people import People, buttons, press, sees
from tests.factories import Caller, make_caller

GUIDE = b"# Tap\n\nTurn the tap to the left.\n"
ATTACK = "<img src=x onerror=alert(1)> \u202ednal"
REVEALED = "<img src=x onerror=alert(1)> [U+202E]dnal"


@pytest.fixture
async def source(memory: AsyncMnema) -> DocumentSource:
    """Return a source of uploads."""
    return await memory.add_source(name="handbook")


async def run_jobs(app: Application, caller: Caller, memory: AsyncMnema) -> None:
    """Run the tenant's queued index jobs, as a worker does."""
    async for job in memory.jobs(state="queued", kind="index_source"):
        assert await app.jobs.run.run_job(caller.scope.tenant_id, job.id, "w") == "done"


@pytest.mark.long
async def test_an_empty_list_says_what_to_do_and_a_source_is_added(person: User, memory: AsyncMnema) -> None:
    await person.open("/sources")
    await sees(person, "No sources yet")
    person.find("Name").type("manuals")
    await press(person, "Add")
    await sees(person, "Source added")
    [made] = [source async for source in memory.list_sources()]
    assert (made.name, made.kind, made.category, made.user_id) == ("manuals", "upload", "knowledge", "_shared")
    await person.open("/sources")
    await sees(person, "manuals")
    await sees(person, "all users")


@pytest.mark.long
async def test_a_source_shows_its_files_with_reasons_and_its_jobs(
    app: Application, person: User, memory: AsyncMnema, caller: Caller, source: DocumentSource
) -> None:
    await memory.upload_file(source.id, "guides/tap.md", GUIDE)
    await memory.upload_file(source.id, "broken.md", b"\x00\x01\x02" * 50)
    await person.open(f"/sources?source_id={source.id}")
    await sees(person, "Indexing")
    await sees(person, "2 waiting")
    await run_jobs(app, caller, memory)
    await sees(person, "Done")  # without loading the page again
    await sees(person, "guides/tap.md")
    await sees(person, "1 added, 1 rejected")
    [rejected] = [file async for file in memory.source_files(source.id, state="rejected")]
    assert rejected.message
    await person.open(f"/sources?source_id={source.id}&state=rejected")
    await sees(person, rejected.message)
    await person.should_not_see("guides/tap.md")


@pytest.mark.long
async def test_progress_goes_on_after_a_passing_failure(
    app: Application,
    person: User,
    memory: AsyncMnema,
    caller: Caller,
    source: DocumentSource,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = [NoAnswer("The server could not be reached.", code="no_answer") for _ in range(2)]
    ask = AsyncMnema.index_job

    async def fail_first(client: AsyncMnema, *ids: UUID) -> IndexJob:
        if failures:
            raise failures.pop()
        return await ask(client, *ids)

    monkeypatch.setattr(AsyncMnema, "index_job", fail_first)
    await memory.upload_file(source.id, "tap.md", GUIDE)
    await person.open(f"/sources?source_id={source.id}")
    await sees(person, "1 waiting")
    await run_jobs(app, caller, memory)
    await sees(person, "1 added")
    assert not failures
    assert len(person.notify.messages) == 1


async def test_a_file_is_uploaded_and_deleted(person: User, memory: AsyncMnema, source: DocumentSource) -> None:
    await person.open(f"/sources?source_id={source.id}")
    await sees(person, "uploaded files")
    person.find("Upload into folder").type("guides")
    [upload] = person.find(ui.upload).elements
    await upload.handle_uploads([SmallFileUpload("tap.md", "text/markdown", GUIDE)])
    await sees(person, "The file is created.")
    await sees(person, "guides/tap.md")
    [file] = [file async for file in memory.source_files(source.id)]
    assert await memory.download_file(source.id, file.id) == GUIDE
    await press(person, "Delete")
    await sees(person, "Delete this file?")
    person.find(marker="confirm").click()
    await sees(person, "No files here")
    assert [file async for file in memory.source_files(source.id)] == []


@pytest.mark.long
async def test_several_files_are_uploaded_into_one_folder(
    person: User, memory: AsyncMnema, source: DocumentSource
) -> None:
    await person.open(f"/sources?source_id={source.id}")
    await sees(person, "Upload into folder")
    person.find("Upload into folder").type("guides")
    [upload] = person.find(ui.upload).elements
    names = ("tap.md", "sink.md", "bath.md")
    for name in names:
        sent = await person.http_client.post(upload.props["url"], files={"file": (name, GUIDE + name.encode())})
        assert sent.status_code == 200
        await sees(person, f"guides/{name}")
    assert {file.path async for file in memory.source_files(source.id)} == {f"guides/{name}" for name in names}


async def test_a_refused_upload_says_why(person: User, memory: AsyncMnema, source: DocumentSource) -> None:
    await person.open(f"/sources?source_id={source.id}")
    await sees(person, "uploaded files")
    [upload] = person.find(ui.upload).elements
    await upload.handle_uploads([SmallFileUpload("logo.gif", "image/gif", b"GIF89a")])
    await sees(person, "The request is not valid")


async def test_index_again_queues_a_job(person: User, memory: AsyncMnema, source: DocumentSource) -> None:
    await person.open(f"/sources?source_id={source.id}")
    await sees(person, "No index jobs yet")
    await press(person, "Index again")
    await sees(person, "Waiting: the files are not counted yet")
    [job] = [job async for job in memory.index_jobs(source.id)]
    assert (job.kind, job.state) == ("sync", "queued")


@pytest.mark.long
async def test_removal_asks_for_the_name(
    app: Application, person: User, memory: AsyncMnema, caller: Caller, source: DocumentSource
) -> None:
    await person.open(f"/sources?source_id={source.id}")
    await sees(person, "Remove")
    await press(person, "Remove")
    await sees(person, "Type handbook to confirm")
    [confirm] = person.find(marker="confirm").elements
    assert isinstance(confirm, ui.button)
    assert not confirm.enabled
    person.find(marker="confirmation").type("handbook")
    person.find(marker="confirm").click()
    await sees(person, "This source is being removed.")
    await run_jobs(app, caller, memory)
    await sees(person, "Not found")
    assert [source async for source in memory.list_sources()] == []


@pytest.mark.long
async def test_names_of_callers_stay_texts(
    person: User, memory: AsyncMnema, source: DocumentSource, database: Database
) -> None:
    await sql(database, "UPDATE sources SET name = $1", ATTACK)
    for address in ("/sources", f"/sources?source_id={source.id}"):
        client = await person.open(address)
        await sees(person, REVEALED)
        assert not [e for e in client.elements.values() if isinstance(e, ui.html | ui.markdown)]


@pytest.mark.long
async def test_a_failed_job_says_why(
    person: User, memory: AsyncMnema, source: DocumentSource, database: Database
) -> None:
    await memory.sync_source(source.id)
    await sql(database, "UPDATE index_jobs SET state = 'failed', ended_at = now(), error = 'folder_empty: all is lost'")
    await person.open(f"/sources?source_id={source.id}")
    await sees(person, "folder_empty: all is lost")
    await sees(person, "Failed")


async def test_a_bound_key_sees_only_sources_of_its_categories_and_removes_none(
    app: Application, people: People, caller: Caller, memory: AsyncMnema, source: DocumentSource
) -> None:
    hidden = await memory.add_source(name="diary", category="tasks")
    bound = await people.sign_in((await make_caller(app, ["query"], ["researcher"], caller)).key)
    await bound.open("/sources")
    await sees(bound, "handbook")
    await bound.should_not_see("diary")
    await bound.should_not_see("Add a source")
    await bound.open(f"/sources?source_id={hidden.id}")
    await sees(bound, "Not found")
    await bound.open(f"/sources?source_id={source.id}")
    await sees(bound, "No files here")
    assert not {"Remove", "Index again"} & buttons(bound)
