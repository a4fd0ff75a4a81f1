"""The builders of operators' commands: roles, migrations, the secret, and the doctor."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from app.bootstrap.adapters import (
    chat_model_settings,
    check_required,
    embedder_settings,
    reranker_settings,
    upstream_settings,
)
from app.bootstrap.blobs import build_blobs
from app.bootstrap.database import build_database, build_replicas, open_database
from app.bootstrap.model import choose_model, default_model
from app.bootstrap.operations import build_doctor_readiness
from app.bootstrap.upstreams import build_key_cipher
from app.config.loader import load_policies
from app.config.settings import Settings
from app.domain.errors import ConfigError, MnemaError
from app.domain.languages import ENGLISH
from app.domain.outages import UnusableAnswer
from app.ports import BlobStore, ChatModel, Reranker
from app.prompts.probe import PROBE, read_probe
from app.providers.chat_models import NullChatModel, build_chat_model
from app.providers.embeddings import build_embedder
from app.providers.embeddings.minilm import NAME as MINILM
from app.providers.parsing.process import find_missing_locks
from app.providers.rerankers import NullReranker, build_reranker
from app.providers.upstreams import installation_upstreams
from app.storage.chat.upstreams import encrypt_keys_again
from app.storage.database_url import database_name
from app.storage.operations import administration as admin
from app.storage.operations.bootstrap import bootstrap_cluster, bootstrap_script
from app.storage.operations.schema import list_changed_objects, name_some, require_schema
from app.storage.operations.secret import secret_fingerprint
from app.storage.operations.spaces import require_space
from app.storage.replicas import Replicas
from app.storage.uow import UnitOfWork
from app.storage.webhooks.webhooks import encrypt_secrets_again
from app.usecases.operations.spaces import Spaces

_SAMPLED_MEMORIES = 2000
_FOREIGN_SHARE = 0.1
"""The share of memories in other languages from which on the doctor proposes the multilingual model."""
_NAMED_LANGUAGES = 5


async def change_secret(settings: Settings, admin_url: str) -> int:
    """Make the settings' secret the one that every replica must match; return the number of keys encrypted with it.

    All keys of tenants' chat endpoints are encrypted again. Raise ConfigError, and change nothing, if neither this
    secret nor the former one decrypts one of them.
    """
    cipher = build_key_cipher(settings)

    async def encrypt_again(connection: asyncpg.Connection) -> int:
        return await encrypt_keys_again(connection, cipher) + await encrypt_secrets_again(connection, cipher)

    return await admin.accept_secret(admin_url, secret_fingerprint(settings.erasure_secret()), encrypt_again)


async def create_roles(superuser_url: str, database: str, passwords: dict[str, str]) -> None:
    """Create roles, database and extension. Idempotent. Raise RightsMissing if this role may not do that."""
    await bootstrap_cluster(superuser_url, database, passwords)


def find_database(admin_url: str) -> str:
    """Return the name of the database in this URL, empty if it has none. Raise ConfigError."""
    return database_name(admin_url) if admin_url else ""


def roles_script(database: str) -> str:
    """Return what `create_roles` does as a script for psql, without passwords."""
    return bootstrap_script(database)


async def migrate_database(admin_url: str, settings: Settings) -> str:
    """Migrate the schema to the newest revision and return the model of the active embedding space.

    A fresh installation gets the embedding space of the configured model, or else of the default one.
    """
    await admin.migrate_schema(admin_url)
    wanted = default_model(settings)
    named = bool(settings.embedding_model)
    return await admin.adopt_model(admin_url, wanted.embedding_model, wanted.embedding_dimension, named=named)


async def check_configuration(settings: Settings) -> None:
    """Check what a server needs to start: settings, policies, models, database role and embedding space.

    Raise ConfigError, or DatabaseUnavailable when no database answers. Leave nothing open.
    """
    check_required(settings)
    settings = await choose_model(settings)
    installation_upstreams(upstream_settings(settings))
    load_policies(settings.embedding_model, settings.config_dir)
    embedder = build_embedder(embedder_settings(settings))
    reranker = build_reranker(reranker_settings(settings), embedder)
    chat = build_chat_model(chat_model_settings(settings))
    database = build_database(settings.model_copy(update={"pool_min": 1, "pool_max": 1}))
    try:
        await require_schema(database.uow)
        await require_space(database.uow, embedder.model, embedder.dimension)
    finally:
        await chat.close()
        await reranker.close()
        await embedder.close()
        await database.close()


async def ask_chat_model(settings: Settings) -> str:
    """Ask the chat model the probe's question, twice if need be; return how its endpoint is asked.

    The calls cost tokens of the endpoint, but none of a tenant's day. Raise NoChatModel, ChatModelUnavailable, and
    UnusableAnswer if neither answer is readable and right.
    """
    chat = build_chat_model(chat_model_settings(settings))
    try:
        for _ in range(2):
            reply = await chat.generate_reply(PROBE)
            if reply.value is not None and read_probe(reply.value).rule is None:
                return chat.describe()
        raise UnusableAnswer(f"The chat model gave no right answer. It was asked with: {chat.describe()}.")
    finally:
        await chat.close()


async def diagnose_installation(settings: Settings) -> dict[str, str]:
    """Return every readiness check by name, and the configuration's: `ok`, or what is wrong and how to mend it."""
    checks = {"configuration": "ok"}
    if not settings.database_url.get_secret_value():
        return {"configuration": "set MNEMA_DATABASE_URL to the database URL of mnema_app, or run `mnema up`"}
    settings = await choose_model(settings)
    try:
        settings.erasure_secret()
        settings.former_secret()
        installation_upstreams(upstream_settings(settings))
        policies = load_policies(settings.embedding_model, settings.config_dir)
        checks |= {"insights": "; ".join(policies.configuration_warnings)} if policies.configuration_warnings else {}
    except ConfigError as error:
        checks["configuration"] = error.detail
    embedder = build_embedder(embedder_settings(settings))
    reranker: Reranker = NullReranker()
    chat: ChatModel = NullChatModel()
    try:
        reranker = build_reranker(reranker_settings(settings), embedder)
        chat = build_chat_model(chat_model_settings(settings))
    except ConfigError as error:
        checks["configuration"] = error.detail
    try:
        async with open_database(settings) as uow, _open_replicas(settings, checks) as replicas:
            blobs = _try_blobs(settings, uow, checks)
            readiness = build_doctor_readiness(
                settings, uow, embedder, reranker, chat, blobs, replicas, has_secret=checks["configuration"] == "ok"
            )
            checks |= await readiness.run_checks()
            if checks["migrations"] == "ok":
                checks |= await _check_objects(uow)
                checks |= await check_languages(uow, settings)
                checks |= await check_past(uow)
            return checks | await _check_reach(uow) | await _check_parsers()
    finally:
        await chat.close()
        await reranker.close()
        await embedder.close()


async def _check_parsers() -> dict[str, str]:
    """Name what a document that takes its parser over could still reach."""
    missing = await asyncio.to_thread(find_missing_locks)
    advice = "this system cannot lock parsers of documents out; run workers where they reach only what they need"
    return {"parsers": f"{' and '.join(missing)}: {advice}" if missing else "ok"}


async def _check_objects(uow: UnitOfWork) -> dict[str, str]:
    """Name the tables, views and functions that somebody changed after the last migration."""
    try:
        changed = await list_changed_objects(uow)
    except MnemaError:  # another check reports it
        return {}
    advice = "changed by hand after the last migration: put back what migrations/schema shows"
    return {"schema": f"{name_some(changed)}: {advice}" if changed else "ok"}


async def check_languages(uow: UnitOfWork, settings: Settings) -> dict[str, str]:
    """Tell whether many memories are in languages that the embedding model does not read."""
    if settings.embedding_model != MINILM:
        return {}
    try:
        rows = await uow.call_definer(admin.LANGUAGES, _SAMPLED_MEMORIES)
    except MnemaError:  # another check reports it
        return {}
    foreign = [row for row in rows if row["language"] != ENGLISH]
    share = sum(row["memories"] for row in foreign) / max(1, sum(row["memories"] for row in rows))
    if share < _FOREIGN_SHARE:
        return {"languages": "ok"}
    named = ", ".join(row["language"] for row in foreign[:_NAMED_LANGUAGES])
    return {
        "languages": f"{share:.0%} of the memories are in other languages than English ({named}), which {MINILM} finds"
        " poorly; multilingual-e5-small finds them: docs/languages.md tells how to go over"
    }


async def check_past(uow: UnitOfWork) -> dict[str, str]:
    """Tell how many memories the job `embed` has yet to read the past of, before questions about it are answered."""
    try:
        left = await Spaces(uow).count_past()
    except MnemaError:  # another check reports it
        return {}
    advice = "until `mnema run embed` or a worker has read it, questions about it answer 503 past_incomplete"
    return {"past": f"the past of {left} memories is not read yet; {advice}" if left else "ok"}


async def _check_reach(uow: UnitOfWork) -> dict[str, str]:
    """Name what mnema_app could reach beside the tables of tenants; return nothing while no database answers."""
    try:
        names = ", ".join(row["datname"] for row in await uow.call_definer(admin.OPEN_DATABASES))
        [objects] = await uow.call_definer(admin.LARGE_OBJECTS)
    except MnemaError:  # another check reports it
        return {}
    cure = "unless another program needs that: REVOKE CONNECT ON DATABASE … FROM PUBLIC"
    shared = "mnema_app may use large objects, which know no tenant; only a superuser can take that from it, by: "
    return {
        "other_databases": f"mnema_app may connect to {names}; {cure}" if names else "ok",
        "large_objects": f"{shared}mnema migrate (docs/managed-postgres.md)" if objects["usable"] else "ok",
    }


@asynccontextmanager
async def _open_replicas(settings: Settings, checks: dict[str, str]) -> AsyncIterator[Replicas | None]:
    """Yield the replicas, or note in `checks` what is wrong with their URLs and yield None."""
    try:
        replicas = build_replicas(settings)
    except ConfigError as error:
        checks["configuration"] = error.detail
        yield None
        return
    try:
        yield replicas
    finally:
        await replicas.close()


def _try_blobs(settings: Settings, uow: UnitOfWork, checks: dict[str, str]) -> BlobStore | None:
    """Build the store of blobs, or note in `checks` what is wrong with its settings and return None."""
    try:
        return build_blobs(settings, uow)
    except ConfigError as error:
        checks["configuration"] = error.detail
    return None
