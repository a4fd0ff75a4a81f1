"""The settings of each adapter, taken from the settings of the installation."""

from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from app.config.loader import Policies, load_policies
from app.config.server_worker import ServerWorker
from app.config.settings import Settings
from app.domain.errors import ConfigError
from app.ports import SharedCounters
from app.providers.blobs import BlobStoreSettings
from app.providers.broker import BrokerSettings, make_celery
from app.providers.chat_models import ChatModelSettings
from app.providers.embeddings import EmbedderSettings
from app.providers.embeddings.endpoint_options import EndpointOptions, TextRole
from app.providers.file_counters import FileCounters
from app.providers.rerankers import RerankerSettings
from app.providers.upstreams import UpstreamSettings
from app.providers.upstreams.client import UpstreamBounds
from app.storage.engine import LONG_S

if TYPE_CHECKING:
    from celery import Celery

log = structlog.get_logger(__name__)
NO_REDIS = "MNEMA_REDIS_URL: must be the URL of a Redis, redis://:…@host/0"


def check_required(settings: Settings) -> None:
    """Raise ConfigError for a setting that has no default and is missing."""
    if not settings.database_url.get_secret_value():
        raise ConfigError("set MNEMA_DATABASE_URL to the database URL of mnema_app")
    settings.erasure_secret()
    settings.former_secret()


def worker_settings(settings: Settings) -> Settings:
    """Return the settings of a worker: its statements may take long, since nobody waits for an answer."""
    return settings.model_copy(update={"database_timeout_s": max(settings.database_timeout_s, LONG_S)})


def build_celery_app(settings: Settings) -> "Celery":
    """Build the Celery application of the workers and of beat."""
    return make_celery(broker_settings(settings))


def broker_settings(settings: Settings) -> BrokerSettings:
    """Return the broker's share of the settings."""
    return BrokerSettings(
        url=settings.redis_url.get_secret_value(),
        queue=settings.worker_queue,
        job_soft_limit_s=settings.job_soft_limit_s,
        sweep_s=settings.sweep_s,
        schedule_s=settings.schedule_s,
        several_clusters=settings.clusters is not None,
    )


def check_redis_url(settings: Settings) -> None:
    """Raise ConfigError if the Redis URL is missing or wrong."""
    if not settings.redis_url.get_secret_value():
        raise ConfigError("set MNEMA_REDIS_URL to the broker's URL")
    from redis import Redis

    try:
        Redis.from_url(settings.redis_url.get_secret_value()).close()
    except ValueError as error:  # its text may hold the password
        raise ConfigError(NO_REDIS) from error


def build_shared_counters(settings: Settings, worker: ServerWorker | None) -> SharedCounters | None:
    """Build the counters that all replicas share. Without a Redis the workers of one server share a file.

    Return None for a server of one process without a Redis. Raise ConfigError for a wrong URL.
    """
    if not (url := settings.redis_url.get_secret_value()):
        return None if worker is None else FileCounters(worker.counters_file)
    from app.providers.redis_counters import RedisCounters  # the client of Redis takes long to import

    try:
        return RedisCounters(url, f"{settings.worker_queue}:limits")
    except ValueError:  # its text may hold the password
        raise ConfigError(
            "MNEMA_REDIS_URL: must be redis://, rediss:// or unix://, its port a number, its password percent-encoded"
        ) from None


def embedder_settings(settings: Settings) -> EmbedderSettings:
    """Return the embedder's share of the settings."""
    return EmbedderSettings(
        kind=settings.embedder,
        model=settings.embedding_model,
        dimension=settings.embedding_dimension,
        base_url=settings.embedding_base_url,
        api_key=settings.embedding_api_key.get_secret_value(),
        api_key_file=settings.embedding_api_key_file,
        timeout_s=settings.embedding_timeout_s,
        endpoint=EndpointOptions(
            query=TextRole(settings.embedding_query_prefix, settings.embedding_query_body),
            passage=TextRole(settings.embedding_passage_prefix, settings.embedding_passage_body),
            send_dimensions=settings.embedding_send_dimensions,
            encoding=settings.embedding_encoding,
            window=settings.embedding_window,
            batch_items=settings.embedding_batch_items,
            batch_tokens=settings.embedding_batch_tokens,
        ),
        threads=settings.embedding_threads,
        cache_dir=settings.home / "models",
    )


def reranker_settings(settings: Settings) -> RerankerSettings:
    """Return the reranker's share of the settings."""
    return RerankerSettings(
        kind=settings.reranker,
        model=settings.reranker_model,
        api=settings.reranker_api,
        base_url=settings.reranker_base_url,
        api_key=settings.reranker_api_key.get_secret_value(),
        api_key_file=settings.reranker_api_key_file,
        timeout_s=settings.reranker_timeout_s,
        threads=settings.embedding_threads,
        cache_dir=settings.home / "models",
    )


def chat_model_settings(settings: Settings) -> ChatModelSettings:
    """Return the chat model's share of the settings."""
    return ChatModelSettings(
        kind=settings.llm,
        base_url=settings.llm_base_url,
        model=settings.llm_model,
        api_key=settings.llm_api_key.get_secret_value(),
        api_key_file=settings.llm_api_key_file,
        timeout_s=settings.llm_timeout_s,
        length_parameter=settings.llm_length_parameter,
        reasoning_effort=settings.llm_reasoning_effort,
        extra_body=settings.llm_extra_body,
        headers={name: value.get_secret_value() for name, value in settings.llm_headers.items()},
    )


def blob_store_settings(settings: Settings) -> BlobStoreSettings:
    """Return the share of the settings that the store of blobs has."""
    return BlobStoreSettings(
        kind=settings.blob_store,
        bucket=settings.blob_s3_bucket,
        prefix=settings.blob_s3_prefix,
        endpoint_url=settings.blob_s3_endpoint_url,
        region=settings.blob_s3_region,
        access_key=settings.blob_s3_access_key.get_secret_value(),
        secret_key=settings.blob_s3_secret_key.get_secret_value(),
        timeout_s=settings.blob_s3_timeout_s,
    )


def upstream_settings(settings: Settings) -> UpstreamSettings:
    """Return the share of the settings that chat endpoints have."""
    return UpstreamSettings(
        url=settings.chat_upstream_url,
        key=settings.chat_upstream_key.get_secret_value(),
        key_file=settings.chat_upstream_key_file,
        anthropic_url=settings.chat_anthropic_url,
        anthropic_key=settings.chat_anthropic_key.get_secret_value(),
        anthropic_key_file=settings.chat_anthropic_key_file,
        hosts=tuple(settings.chat_upstream_hosts),
        private=settings.chat_private_upstreams,
        bounds=UpstreamBounds(
            connect_timeout_s=settings.chat_connect_timeout_s,
            first_byte_timeout_s=settings.chat_first_byte_timeout_s,
            idle_timeout_s=settings.chat_idle_timeout_s,
            max_connections=settings.chat_max_connections,
            max_answer_bytes=settings.chat_max_answer_bytes,
        ),
    )


def load_process_policies(settings: Settings) -> Policies:
    """Load the policies of a process and log a warning for each part that they switch off. Raise ConfigError."""
    policies = adapt_ranking(load_policies(settings.embedding_model, settings.config_dir), settings)
    for warning in policies.configuration_warnings:
        log.warning("configuration_warning", detail=warning)
    return policies


def adapt_ranking(policies: Policies, settings: Settings) -> Policies:
    """Return the policies with the profiles of the installation's reranker.

    The calibration of late interaction also serves for a cross-encoder that is away. Without late interaction no words
    are compared.
    """
    calibration = policies.reranker
    if calibration is not None and settings.reranker == "none":
        calibration = replace(calibration, late_interaction=None)
    profiles = {name: replace(profile, calibration=calibration) for name, profile in policies.profiles.items()}
    if settings.reranker == "none":
        profiles = {name: profile.without_late() for name, profile in profiles.items()}
    return replace(policies, profiles=profiles)
