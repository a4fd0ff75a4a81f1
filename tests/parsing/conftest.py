"""Parsers for tests."""

from collections.abc import AsyncIterator

import pytest

from app.providers.parsing.pool import PooledDocumentParser


@pytest.fixture(scope="session")
async def parser() -> AsyncIterator[PooledDocumentParser]:
    """The real parsers, one process at a time."""
    made = PooledDocumentParser(processes=1)
    yield made
    await made.close()


@pytest.fixture
async def hostile() -> AsyncIterator[PooledDocumentParser]:
    """Parsers that misbehave, one process at a time."""
    made = PooledDocumentParser(processes=1, parsers="tests.parsing.hostile_parsers")
    yield made
    await made.close()
