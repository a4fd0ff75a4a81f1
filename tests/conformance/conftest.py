"""Embedders and the endpoints they need."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from app.providers.embeddings.local import LocalEmbedder
from app.providers.embeddings.openai import OpenAIEmbedder
from tests.conformance.embedders import client
from tests.conftest import model_cache
from tests.fake_openai import FakeOpenAI, fake_openai


@pytest.fixture(scope="module")
def local() -> Iterator[LocalEmbedder]:
    """Load the real local model, once."""
    embedder = LocalEmbedder(model_cache(), threads=2, query_cache=2)
    yield embedder
    asyncio.run(embedder.close())


@pytest.fixture
async def server() -> AsyncIterator[FakeOpenAI]:
    """Start a scripted endpoint."""
    async with fake_openai() as fake:
        yield fake


@pytest.fixture
async def remote(server: FakeOpenAI) -> AsyncIterator[OpenAIEmbedder]:
    """Return an embedder of the scripted endpoint."""
    embedder = client(server)
    yield embedder
    await embedder.close()
