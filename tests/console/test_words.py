"""The words of pages: a plain one for every word of the API."""

from collections.abc import Iterable
from typing import get_args

import pytest
from mnema_client import AsyncMnema
from mnema_client.consent import ProposalState
from nicegui import ui
from nicegui.testing import User

from app.domain.changes import CHANGES
from app.domain.jobs.job import JobKind, JobState
from app.domain.memory.memory import MemoryState, MemoryType
from app.domain.sources.index_job import IndexCause, IndexJobKind, IndexJobState
from app.domain.sources.source import FileState, SourceState
from console import words
from tests.api.calls import sql
from tests.conftest import Database
from tests.console.people import sees

API_WORDS = ("soft-deleted", "soft_deleted", "after_turn", "hotpath", "purge", "Purge", "dead", "superseded")
"""Words that no label may have."""


@pytest.mark.parametrize(
    ("known", "raw"),
    [
        (words.MEMORY_STATES, MemoryState),
        (words.MEMORY_TYPES, MemoryType),
        (words.CHANGES, [rule.history for rule in CHANGES.values()]),
        (words.JOB_STATES, [*JobState, *IndexJobState]),
        (words.JOB_KINDS, JobKind),
        (words.OPERATIONS, JobKind),
        (words.SOURCE_STATES, SourceState),
        (words.FILE_STATES, FileState),
        (words.INDEX_KINDS, IndexJobKind),
        (words.INDEX_CAUSES, IndexCause),
        (words.PROPOSAL_STATES, get_args(ProposalState)),
    ],
)
def test_every_word_of_the_api_has_a_plain_one_of_its_own(known: words.Words, raw: Iterable[str]) -> None:
    assert {str(word) for word in raw} <= known.keys()
    texts = [word.text for word in known.values()]
    assert len(set(texts)) == len(texts)


def test_an_unknown_word_is_shown_as_it_is_and_safely() -> None:
    assert words.name_word(words.JOB_KINDS, "new_kind\u202e") == "new kind[U+202E]"
    choices = words.name_choices(words.OUTCOMES, "All", "late_one", "")
    assert choices == {"": "All", "ok": "Done", "error": "Failed", "skipped": "Skipped", "late_one": "late one"}


@pytest.mark.long
async def test_pages_have_no_word_of_the_api(person: User, memory: AsyncMnema, database: Database) -> None:
    await memory.add_turn("Maya books the venue.", user_id="maya", thread_id="t", role="user")
    await sql(database, "UPDATE jobs SET state = 'dead', attempts = 8, last_error = 'lost'")
    written = await memory.remember("Maya drinks oat milk.", user_id="maya", category="preferences")
    assert written.id is not None
    await memory.delete(written.id)
    for path, shown in {
        "/": "Failed for good",
        "/jobs": "Follow up a turn",
        "/bin": "Delete for good",
        "/events": "Answers and writes",
    }.items():
        client = await person.open(path)
        await sees(person, shown)
        labels = [element.text for element in client.elements.values() if isinstance(element, ui.label)]
        assert [text for text in labels for word in API_WORDS if word in text] == [], path
