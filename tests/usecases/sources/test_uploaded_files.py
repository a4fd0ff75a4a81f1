"""Index jobs on uploads: a file waits in the store of blobs until a job parses it."""

from collections.abc import Sequence

import pytest

from app.domain.sources.index_job import Progress
from app.ports import Embedding
from tests.usecases.sources.indexing import GUIDE, Indexing


@pytest.mark.long
async def test_an_upload_waits_until_a_job_parses_it(indexing: Indexing) -> None:
    source = await indexing.add_uploads()
    await indexing.upload(source, "guide.md", GUIDE.encode())
    await indexing.upload(source, "photo.png", b"no text")
    job = await indexing.sync(source)
    assert (job.state, job.progress.added, job.progress.rejected) == ("done", 1, 1)
    assert await indexing.file_states() == {"guide.md": ("indexed", None), "photo.png": ("rejected", "unsupported")}
    assert all(GUIDE[start:end] == text for start, end, text in await indexing.texts_of("guide.md"))
    assert (await indexing.sync(source)).progress == Progress(unchanged=1, rejected=1)
    await indexing.check_whole()


@pytest.mark.long
async def test_a_new_content_replaces_only_the_chunks_that_changed(indexing: Indexing) -> None:
    source = await indexing.add_uploads()
    await indexing.upload(source, "guide.md", GUIDE.encode())
    await indexing.sync(source)
    before = await indexing.chunk_ids("guide.md")
    await indexing.upload(source, "guide.md", GUIDE.replace("Sentence 5", "Phrase 5").encode())
    job = await indexing.sync(source)
    assert (job.progress.changed, job.progress.chunks_kept) == (1, len(before) - job.progress.chunks_removed)
    assert 0 < job.progress.chunks_removed < len(before)
    await indexing.check_whole()


@pytest.mark.long
async def test_a_content_uploaded_while_the_old_one_is_indexed_waits_for_the_next_job(
    indexing: Indexing, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = await indexing.add_uploads()
    await indexing.upload(source, "guide.md", b"The old content.")
    await indexing.upload(source, "other.md", b"Another file.")
    encode = indexing.model.encode_texts

    async def upload_again(texts: Sequence[str]) -> list[Embedding]:
        result = await encode(texts)
        await indexing.upload(source, "guide.md", b"The new content.")
        return result

    with monkeypatch.context() as patch:
        patch.setattr(indexing.model, "encode_texts", upload_again)
        job = await indexing.sync(source)
    assert (job.progress.added, job.progress.unchanged) == (1, 1)
    assert (await indexing.file_states())["guide.md"] == ("waiting", None)
    assert (await indexing.sync(source)).progress.added == 1
    assert await indexing.texts_of("guide.md") == [(0, 16, "The new content.")]
    await indexing.check_whole()


async def test_a_missing_blob_rejects_its_file_alone(indexing: Indexing) -> None:
    source = await indexing.add_uploads()
    uri = await indexing.upload(source, "lost.md", b"This content is lost.")
    await indexing.upload(source, "kept.md", b"This content is here.")
    await indexing.sql.execute("DELETE FROM blob_contents WHERE uri = $1", uri)
    job = await indexing.sync(source)
    assert (job.state, job.progress.added, job.progress.rejected) == ("done", 1, 1)
    assert (await indexing.file_states())["lost.md"] == ("rejected", "unreadable")
