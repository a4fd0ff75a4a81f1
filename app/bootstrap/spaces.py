"""The builders of `mnema embeddings`: add, fill, switch and drop embedding spaces."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.bootstrap.adapters import embedder_settings
from app.bootstrap.database import open_database
from app.bootstrap.model import choose_model
from app.config.loader import load_policies
from app.config.settings import Settings
from app.domain.errors import ConfigError, WrongState
from app.ports import Embedder
from app.providers.embeddings import build_embedder
from app.storage.agent_state.item_vectors import ItemVectorStorage
from app.storage.journal import Journal
from app.storage.operations import space_admin
from app.storage.operations.spaces import named_space, require_space
from app.storage.operations.vectors import VectorStorage
from app.storage.tenancy.tenants import TenantStorage
from app.storage.uow import UnitOfWork
from app.usecases.operations.embed_missing import EmbedMissing
from app.usecases.operations.spaces import FillSpace, SpaceReport, Spaces


@asynccontextmanager
async def open_spaces(settings: Settings) -> AsyncIterator[Spaces]:
    """Open the report on embedding spaces. It needs the database, not the model."""
    async with open_database(settings) as uow:
        yield Spaces(uow)


@asynccontextmanager
async def open_space_filler(
    settings: Settings, name: str, embedder: Embedder | None = None
) -> AsyncIterator[FillSpace]:
    """Open the use-case that fills a space. Raise NotFound, or ConfigError if the configured model is another one."""
    async with _open_space_embedding(settings, name, embedder) as (uow, embed):
        yield FillSpace(TenantStorage(uow), embed)


@asynccontextmanager
async def open_embed_missing(settings: Settings) -> AsyncIterator[EmbedMissing]:
    """Open the job `embed` for the space that servers with these settings use. Raise ConfigError."""
    async with _open_space_embedding(settings, None, None) as (_uow, embed):
        yield embed


@asynccontextmanager
async def _open_space_embedding(
    settings: Settings, name: str | None, embedder: Embedder | None
) -> AsyncIterator[tuple[UnitOfWork, EmbedMissing]]:
    settings = await choose_model(settings)
    policies = load_policies(settings.embedding_model, settings.config_dir)
    embedder = embedder or build_embedder(embedder_settings(settings))
    try:
        async with open_database(settings) as uow:
            if name is None:
                space = await require_space(uow, embedder.model, embedder.dimension)
            else:
                space = (await named_space(uow, name)).space
            if (space.model, space.dimension) != (embedder.model, embedder.dimension):
                raise ConfigError(
                    f"embedding space {space.name} is of {space.model} ({space.dimension} dimensions), but the "
                    f"configured embedder is {embedder.model} ({embedder.dimension}): set MNEMA_EMBEDDER, "
                    "MNEMA_EMBEDDING_MODEL and MNEMA_EMBEDDING_DIMENSION for this command"
                )
            yield uow, build_embed_missing(uow, space.name, embedder, policies.query.exact_up_to)
    finally:
        await embedder.close()


def build_embed_missing(uow: UnitOfWork, space: str, embedder: Embedder, exact_up_to: int) -> EmbedMissing:
    """Build the use-case that embeds everything without a vector in the space."""
    journal = Journal(uow, space, b"")  # for events alone: no text is hashed
    return EmbedMissing(VectorStorage(uow, space), ItemVectorStorage(uow, space), embedder, journal, exact_up_to)


async def add_space(admin_url: str, model: str, dimension: int, partitions: int = 16) -> str:
    """Create the model's space unless it exists; return its name."""
    return await space_admin.add_space(admin_url, model, dimension, partitions)


async def switch_space(settings: Settings, admin_url: str, name: str, *, force: bool) -> SpaceReport:
    """Make a space the active one. Raise NotFound, or WrongState while vectors are missing in it."""
    async with open_spaces(settings) as spaces:
        report = await spaces.get_report(name)
    if report.missing and not force:
        raise WrongState(
            f"{_missing_text(report.missing)} in {name}: run `mnema embeddings migrate {name}` first; if it runs with "
            "--follow and has nothing left but what servers write meanwhile, add --force"
        )
    await space_admin.switch_space(admin_url, name)
    return report


async def drop_space(settings: Settings, admin_url: str, name: str, *, force: bool) -> SpaceReport:
    """Drop a space. Raise NotFound, or WrongState for the active space or while the active space lacks vectors.

    Without the last rule, servers of the other model might still write to it.
    """
    async with open_spaces(settings) as spaces:
        report = await spaces.get_report(name)
        active = await spaces.active_report()
        if report.registered.active or active is None:
            raise WrongState(f"embedding space {name} is the active one; switch to another first")
        if active.missing and not force:
            into = active.registered.space.name
            raise WrongState(
                f"{_missing_text(active.missing)} in the active space: run `mnema embeddings migrate {into}` first, "
                f"and see that no server uses {report.registered.space.model} any more"
            )
        await spaces.delete_item_vectors(name)
    await space_admin.drop_space(admin_url, name)
    return report


def _missing_text(count: int) -> str:
    return (
        "1 memory or agents' value has no vector"
        if count == 1
        else f"{count} memories or agents' values have no vector"
    )
