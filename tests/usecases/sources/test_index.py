"""Index jobs on a folder: files become chunks, and follow their files (`docs/sources.md`)."""

from tests.usecases.sources.indexing import Indexing

GUIDE = "# Guide\n\n" + "\n\n".join(f"## Part {n}\n\n{f'Sentence {n} of the guide. ' * 20}" for n in range(6))


async def test_a_file_becomes_chunks_with_exact_positions(indexing: Indexing) -> None:
    file = indexing.write("guide.md", GUIDE)
    job = await indexing.sync(await indexing.add_folder())
    assert (job.state, job.files_total, job.progress.added) == ("done", 1, 1)
    chunks = await indexing.texts_of("guide.md")
    assert len(chunks) == job.progress.chunks_added > 1
    text = file.read_text(encoding="utf-8")
    assert all(text[start:end] == chunk for start, end, chunk in chunks)
