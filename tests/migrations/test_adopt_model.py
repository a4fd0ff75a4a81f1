"""The model of an installation's vectors: chosen while there are none, kept once there are."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import asyncpg
import pytest
from pydantic import SecretStr

from app.bootstrap.administration import migrate_database
from app.bootstrap.model import choose_model
from app.config.settings import Settings
from app.domain.errors import ConfigError
from app.domain.memory.merge_bands import MergeBands
from app.domain.principal import Principal
from app.storage.engine import Engine
from app.storage.memory.memories import MemoryStorage
from app.storage.operations import administration as admin
from app.storage.operations.spaces import Space, active_space, list_spaces, require_space
from app.storage.uow import UnitOfWork
from tests.architecture import catalog
from tests.conftest import Database
from tests.storage.building import creation, journal_of, new_tenant, vector_of

SHIPPED = Space("minilm_l6_v2", "all-MiniLM-L6-v2", 384)
OPENAI = "text-embedding-3-small"


@pytest.fixture
async def uow(database: Database) -> AsyncIterator[UnitOfWork]:
    engine = Engine(database.app, min_size=1, max_size=2)
    yield UnitOfWork(engine)
    await engine.close()


async def remember(uow: UnitOfWork, space: Space, *texts: str) -> Principal:
    """Create a tenant with these texts as memories in that space."""
    scope = await new_tenant(uow)
    vectors = {text: vector_of(text, space.dimension) for text in texts}
    changes = [replace(creation(scope, text), vector=vector) for text, vector in vectors.items()]
    await journal_of(uow, space.name).record(scope, changes)
    return scope


@pytest.mark.parametrize("dimension", [1152, 1153, 1536, 3072])
async def test_a_fresh_installation_takes_another_model(database: Database, uow: UnitOfWork, dimension: int) -> None:
    assert await admin.adopt_model(database.admin, OPENAI, dimension, partitions=2) == OPENAI
    space = await active_space(uow)
    assert (space.model, space.dimension) == (OPENAI, dimension)
    scope = await remember(uow, space, "Maya plays chess.", "Maya drinks oat milk.")
    near = vector_of("Maya drinks oat milk.", dimension)
    found = await MemoryStorage(uow, space.name).find_neighbours(scope, "maya", "preferences", "?", near, MergeBands())
    assert [c.neighbour.text for c in found] == ["Maya drinks oat milk.", "Maya plays chess."]
    assert found[0].neighbour.similarity == pytest.approx(1.0, abs=1e-3)


async def test_the_new_space_is_as_isolated_as_the_first(database: Database, uow: UnitOfWork) -> None:
    await admin.adopt_model(database.admin, OPENAI, 1536, partitions=2)
    connection = await asyncpg.connect(database.superuser)
    try:
        assert f"vec_{(await active_space(uow)).name}" in await catalog.tenant_tables(connection)
        for check in (catalog.unprotected_tables, catalog.granted_partitions, catalog.public_functions):
            assert await check(connection) == []
    finally:
        await connection.close()


async def test_the_same_model_again_changes_nothing(database: Database, uow: UnitOfWork) -> None:
    assert await admin.adopt_model(database.admin, SHIPPED.model, SHIPPED.dimension) == SHIPPED.model
    assert await active_space(uow) == SHIPPED


async def test_an_installation_with_vectors_keeps_its_model(database: Database, uow: UnitOfWork) -> None:
    await remember(uow, SHIPPED, "Maya drinks oat milk.")
    assert await admin.adopt_model(database.admin, OPENAI, 1536) == SHIPPED.model
    assert await active_space(uow) == SHIPPED
    with pytest.raises(ConfigError, match=SHIPPED.model):
        await require_space(uow, OPENAI, 1536)


@pytest.mark.parametrize(
    "models",
    [
        [(OPENAI, 1536), (SHIPPED.model, 384), (OPENAI, 1536)],
        [("acme/multilingual-sentence-model-v1", 768), ("acme/multilingual-sentence-model-v2", 768)],
        [("modèle-français", 768), ("модель", 768)],
        [("3-large", 768), ("-_-", 768)],
    ],
    ids=["there and back", "alike in 32 characters", "beyond ASCII", "no leading letter"],
)
async def test_an_empty_installation_may_change_its_mind(
    database: Database, uow: UnitOfWork, models: list[tuple[str, int]]
) -> None:
    for model, dimension in models:
        assert await admin.adopt_model(database.admin, model, dimension, partitions=2) == model
        space = await require_space(uow, model, dimension)
        await remember_and_forget(database, uow, space)


async def remember_and_forget(database: Database, uow: UnitOfWork, space: Space) -> None:
    """Store a vector in the space and remove it, so that the space is as empty as before."""
    await remember(uow, space, "Maya drinks oat milk.")
    connection = await asyncpg.connect(database.superuser)
    await connection.execute("TRUNCATE memories CASCADE")
    await connection.close()


async def test_two_operators_at_once_agree(database: Database, uow: UnitOfWork) -> None:
    answers = await asyncio.gather(
        *(admin.adopt_model(database.admin, OPENAI, 1536, partitions=2) for _ in range(3)), return_exceptions=True
    )
    assert answers == [OPENAI] * 3
    assert (await active_space(uow)).model == OPENAI


UNNAMED = Settings(embedding_model="")


async def test_a_new_installation_gets_the_multilingual_model(database: Database, uow: UnitOfWork) -> None:
    assert await migrate_database(database.admin, UNNAMED) == "multilingual-e5-small"
    assert [one.space.model for one in await list_spaces(uow)] == ["multilingual-e5-small"]


async def test_an_installation_with_a_tenant_keeps_its_model_unless_another_is_named(
    database: Database, uow: UnitOfWork
) -> None:
    await new_tenant(uow)
    assert await migrate_database(database.admin, UNNAMED) == SHIPPED.model
    assert await migrate_database(database.admin, Settings(embedding_model=OPENAI)) == OPENAI  # it holds no vector yet


async def test_a_server_without_a_named_model_takes_that_of_the_stored_vectors(database: Database) -> None:
    unnamed = UNNAMED.model_copy(update={"database_url": SecretStr(database.app), "embedding_dimension": 7})
    chosen = await choose_model(unnamed)
    assert (chosen.embedding_model, chosen.embedding_dimension) == (SHIPPED.model, SHIPPED.dimension)
    named = unnamed.model_copy(update={"embedding_model": OPENAI})
    assert await choose_model(named) is named


async def test_without_a_database_the_default_is_assumed_but_never_for_an_endpoint() -> None:
    away = UNNAMED.model_copy(update={"database_url": SecretStr("postgresql://mnema_app:x@127.0.0.1:1/mnema")})
    assert (await choose_model(away)).embedding_model == "multilingual-e5-small"
    with pytest.raises(ConfigError, match="MNEMA_EMBEDDING_MODEL"):
        await choose_model(away.model_copy(update={"embedder": "openai"}))
