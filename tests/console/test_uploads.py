"""Uploads: few at once, of one session and of all; the others wait, and a refusal says why."""

import asyncio
from typing import Any

import pytest
from mnema_client import AsyncMnema
from mnema_wire.sources import DocumentSource
from nicegui import ui
from nicegui.testing import User

from console.settings import ConsoleSettings
from console.uploads import MOST, MOST_OF_SESSION, TooManyUploads, UploadSlots
from tests.console.people import sees

GUIDE = ("tap.md", b"# Tap\n\nTurn the tap to the left.\n")


class Upload:
    """An upload of a session that goes on until `finish`."""

    def __init__(self, slots: UploadSlots, session: str) -> None:
        self._done = asyncio.Event()
        self.has_begun = False
        self._slots = slots
        self._task = asyncio.create_task(self._run(session))

    async def _run(self, session: str) -> None:
        async with self._slots.take_slot(session):
            self.has_begun = True
            await self._done.wait()

    async def finish(self) -> None:
        """End the upload."""
        self._done.set()
        await self._task


async def settle() -> None:
    """Let all tasks run until they wait."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_session_waits_for_its_own_uploads_and_not_for_those_of_others() -> None:
    slots = UploadSlots()
    uploads = [Upload(slots, "one") for _ in range(MOST_OF_SESSION + 2)]
    await settle()
    assert [upload.has_begun for upload in uploads] == [True] * MOST_OF_SESSION + [False] * 2
    other = Upload(slots, "other")
    await settle()
    assert other.has_begun
    await uploads[0].finish()
    await settle()
    assert [upload.has_begun for upload in uploads[MOST_OF_SESSION:]] == [True, False]
    for upload in [*uploads[1:], other]:
        await upload.finish()


async def test_all_sessions_share_the_slots_of_the_process() -> None:
    slots = UploadSlots()
    uploads = [Upload(slots, f"session {number}") for number in range(MOST + 1)]
    await settle()
    assert [upload.has_begun for upload in uploads] == [True] * MOST + [False]
    for upload in uploads:
        await upload.finish()


async def test_an_upload_that_is_given_up_leaves_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.uploads.MOST_WAITING_OF_SESSION", 1)
    slots = UploadSlots()
    for _ in range(3):
        with slots.hold_slot("one"), slots.hold_slot("one"), slots.hold_slot("one"), slots.hold_slot("one"):
            waiting = asyncio.create_task(slots.take_slot("one").__aenter__())
            await settle()
            with pytest.raises(TooManyUploads):
                await slots.take_slot("one").__aenter__()
            waiting.cancel()
            await asyncio.wait([waiting])
    async with slots.take_slot("one"):
        pass


async def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.uploads.LONGEST_WAIT_S", 0.05)
    monkeypatch.setattr("console.uploads.MOST_OF_SESSION", 0)
    with pytest.raises(TooManyUploads):
        await UploadSlots().take_slot("one").__aenter__()


@pytest.fixture
async def source(memory: AsyncMnema) -> DocumentSource:
    """Return a source of uploads."""
    return await memory.add_source(name="handbook")


async def open_upload(person: User, source: DocumentSource) -> ui.upload:
    """Open the page of a source; return its upload."""
    await person.open(f"/sources?source_id={source.id}")
    await sees(person, "Upload into folder")
    [upload] = person.find(ui.upload).elements
    return upload


@pytest.mark.long
async def test_a_file_counts_until_the_api_has_it(
    person: User, memory: AsyncMnema, source: DocumentSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.uploads.MOST_OF_SESSION", 1)
    stored, store = asyncio.Event(), AsyncMnema.upload_file

    async def wait_and_store(*args: Any, **fields: Any) -> Any:
        await stored.wait()
        return await store(*args, **fields)

    monkeypatch.setattr(AsyncMnema, "upload_file", wait_and_store)
    address = (await open_upload(person, source)).props["url"]
    assert (await person.http_client.post(address, files={"file": GUIDE})).status_code == 200
    second = asyncio.create_task(person.http_client.post(address, files={"file": ("sink.md", GUIDE[1])}))
    await asyncio.sleep(0.5)  # it waits at the gate
    monkeypatch.setattr("console.uploads.MOST_WAITING_OF_SESSION", 1)
    third = await person.http_client.post(address, files={"file": GUIDE})
    assert (third.status_code, third.text) == (429, "Too many uploads at once. Try again when others have ended.")
    assert not second.done()
    stored.set()
    assert (await second).status_code == 200
    await sees(person, "sink.md")
    assert {file.path async for file in memory.source_files(source.id)} == {"tap.md", "sink.md"}


async def test_a_body_that_comes_too_slowly_or_too_large_is_refused(
    person: User, source: DocumentSource, console_settings: ConsoleSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = (await open_upload(person, source)).props["url"]
    console_settings.upload_mb = 1

    async def stream(parts: int, pause_s: float) -> Any:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n'
        for _ in range(parts):
            yield b"x" * 100_000
            await asyncio.sleep(pause_s)

    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    large = await person.http_client.post(address, content=stream(11, 0), headers=kind)
    assert (large.status_code, large.text) == (413, "The request is too large.")
    monkeypatch.setattr("console.bodies.START_S", 0.05)
    monkeypatch.setattr("console.bodies.SLOWEST_BYTES", 1 << 30)
    slow = await person.http_client.post(address, content=stream(2, 5), headers=kind)
    assert (slow.status_code, slow.text) == (408, "The request came too slowly.")


@pytest.mark.parametrize(
    ("status", "words"),
    [(413, "too large"), (429, "Too many uploads"), (408, "too slow"), (0, "connection was lost"), ("x", "was lost")],
)
async def test_a_refused_upload_is_explained(person: User, source: DocumentSource, status: object, words: str) -> None:
    await open_upload(person, source)
    person.find(ui.upload).trigger("failed", status)
    await sees(person, words)
