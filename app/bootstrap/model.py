"""The embedding model of an installation: that of the settings, else that of its stored vectors, else the default."""

from typing import Final

from app.bootstrap.database import open_database
from app.config.settings import Settings
from app.domain.errors import ConfigError, MnemaError
from app.providers.embeddings.e5 import NAME as MULTILINGUAL
from app.storage.operations.spaces import active_space

DEFAULT_MODEL: Final = MULTILINGUAL
"""The local model of a new installation."""


async def choose_model(settings: Settings) -> Settings:
    """Return the settings with the installation's embedding model.

    It is the default while no database answers: whoever needs the database reports that. Raise ConfigError.
    """
    if settings.embedding_model:
        return settings
    try:
        async with open_database(settings) as uow:
            space = await active_space(uow)
    except MnemaError:
        return default_model(settings)
    return settings.model_copy(update={"embedding_model": space.model, "embedding_dimension": space.dimension})


def default_model(settings: Settings) -> Settings:
    """Return the settings with the embedding model of a new installation. Raise ConfigError if it must be named."""
    if settings.embedding_model:
        return settings
    if settings.embedder != "local":
        raise ConfigError("set MNEMA_EMBEDDING_MODEL to a model of the endpoint MNEMA_EMBEDDING_BASE_URL")
    return settings.model_copy(update={"embedding_model": DEFAULT_MODEL})
