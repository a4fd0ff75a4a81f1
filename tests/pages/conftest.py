"""One server for all tests of the pages: with the default embedding model, an operator key and scripted endpoints."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.bootstrap import Application, Doubles
from app.bootstrap.administration import migrate_database
from app.bootstrap.model import DEFAULT_MODEL
from app.ports import Embedder
from app.providers.embeddings.local import LocalEmbedder
from tests.conftest import Installation, cloned, model_cache, settings_of
from tests.factories import Caller, Clock, KeepOpen, replica
from tests.fake_llm import fake_llm
from tests.pages.reader import OPERATOR_KEY, Reader
from tests.scripted_upstream import scripted_upstream
from tests.usecases.reflecting import with_model


@pytest.fixture(scope="session")
def default_embedder() -> Iterator[Embedder]:
    """Load the model of a new installation, with which readers see what the pages show."""
    local = LocalEmbedder(cache_dir=model_cache(), threads=1, name=DEFAULT_MODEL)
    yield KeepOpen(local)
    asyncio.run(local.close())


@pytest.fixture(scope="session")
async def shared_installation(
    superuser_url: str, default_embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Installation]:
    """Run one database, application and server for the pages of this process."""
    home = tmp_path_factory.mktemp("pages")
    (home / "operator.key").write_text(OPERATOR_KEY)
    async with cloned(superuser_url) as database, scripted_upstream() as upstream, fake_llm() as llm:
        upstream.takes_anything, upstream.rule = True, lambda _body: "Fine."
        given = {
            "chat_upstream_url": upstream.base_url,
            "operator_key_file": str(home / "operator.key"),
            "embedding_model": DEFAULT_MODEL,
        }
        settings = with_model(settings_of(database, home), llm).model_copy(update=given)
        await migrate_database(database.admin, settings)
        await default_embedder.embed_query("ready")  # a check of readiness may not wait for the loading
        async with replica(settings, Doubles(embedder=default_embedder, clock=Clock())) as (url, app):
            yield Installation(app, database, url)


@pytest.fixture
async def reader(server: str, app: Application, caller: Caller, tmp_path: Path) -> Reader:
    """Return a reader with a fresh tenant and an empty folder."""
    return Reader(server, app, caller, tmp_path)
