"""The doctor's proposal of the multilingual model, from the languages of what is stored."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from app.bootstrap import Application
from app.bootstrap.administration import check_languages
from app.config.settings import Settings
from app.domain.principal import Principal
from app.storage.operations.administration import LANGUAGES
from app.storage.uow import UnitOfWork
from tests.factories import draft


class Sample:
    """A unit of work that answers with the languages of a sample."""

    def __init__(self, **memories: int) -> None:
        self._memories = memories

    async def call_definer(self, statement: str, *args: Any) -> Sequence[dict[str, Any]]:
        """Return the rows of the sample."""
        assert statement == LANGUAGES
        return [{"language": language, "memories": number} for language, number in self._memories.items()]


async def check(settings: Settings, **memories: int) -> str | None:
    """Return the verdict about a sample, None without one."""
    return (await check_languages(cast(UnitOfWork, Sample(**memories)), settings)).get("languages")


async def test_many_memories_in_other_languages_are_told_with_the_model_that_reads_them(settings: Settings) -> None:
    told = await check(settings, en=70, de=20, fr=10)
    assert told is not None
    assert told.startswith("30% of the memories are in other languages than English (de, fr), which all-MiniLM-L6-v2")
    assert "multilingual-e5-small" in told


@pytest.mark.parametrize("memories", [{}, {"en": 100}, {"en": 95, "de": 5}])
async def test_few_of_them_are_not(settings: Settings, memories: dict[str, int]) -> None:
    assert await check(settings, **memories) == "ok"


async def test_a_model_that_reads_them_needs_no_proposal(settings: Settings) -> None:
    assert await check(settings.model_copy(update={"embedding_model": "multilingual-e5-small"}), de=100) is None


async def test_the_sample_counts_languages_and_tells_nothing_else(app: Application, scope: Principal) -> None:
    await app.memory.write.write_memory(scope, draft("Maya wohnt seit dem Frühjahr in einer Wohnung am Fluss."))
    rows = [dict(row) for row in await app.parts.uow.call_definer(LANGUAGES, 100_000)]
    assert {frozenset(row) for row in rows} == {frozenset({"language", "memories"})}
    assert any(row["language"] == "de" for row in rows)
