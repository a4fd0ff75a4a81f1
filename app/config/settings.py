"""Settings of one installation. MNEMA_* variables override secret files, which override config/settings.yaml."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, SecretStr, TypeAdapter, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SecretsSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)

from app.config.clusters import load_clusters
from app.config.yaml_files import CONFIG_DIR
from app.domain.errors import ConfigError

SECRETS_DIR = "/run/secrets"
SECRET_BYTES = 32
MAKE_SECRET = (
    f"at least {SECRET_BYTES} bytes, the same on every server and worker, and never changed; "
    "create it once: `openssl rand -hex 32`"
)
NO_SECRET = f"set MNEMA_SECRET_KEY: {MAKE_SECRET}"
SHORT_SECRET = f"MNEMA_SECRET_KEY is too short: {MAKE_SECRET}"
ToolKind = Literal["query", "remember", "history", "facts", "forget", "correct"]
Origin = Annotated[
    str, Field(pattern=r"^(\*|https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:.]+\](:[0-9]{1,5})?)$")
]
HostRule = Annotated[str, Field(pattern=r"^((\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*|[0-9a-f:.]+)$")]
ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class LayeredSettings(BaseSettings):
    """Settings from variables MNEMA_<NAME> (empty means not set), then from files mnema_<name> in MNEMA_SECRETS_DIR."""

    model_config = SettingsConfigDict(env_prefix="MNEMA_", env_ignore_empty=True, extra="ignore")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources in order of precedence: arguments, environment, folder of secrets."""
        folder = os.environ.get("MNEMA_SECRETS_DIR") or (SECRETS_DIR if os.path.isdir(SECRETS_DIR) else None)
        return init_settings, env_settings, SecretsSettingsSource(settings_cls, secrets_dir=folder)


class AdminSettings(LayeredSettings):
    """The settings of `mnema migrate`. Servers and workers never read them."""

    superuser_database_url: SecretStr = SecretStr("")
    admin_database_url: SecretStr = SecretStr("")
    admin_password: SecretStr = SecretStr("")
    app_password: SecretStr = SecretStr("")
    backup_password: SecretStr = SecretStr("")
    database: str = ""

    def role_passwords(self) -> dict[str, str]:
        """Return the passwords by role. `mnema_backup` is missing if not set; the other two are then empty."""
        given = {"mnema_admin": self.admin_password, "mnema_app": self.app_password}
        if self.backup_password.get_secret_value():
            given["mnema_backup"] = self.backup_password
        return {role: password.get_secret_value() for role, password in given.items()}


class Settings(LayeredSettings):
    """The settings of a server or worker, in seconds and bytes.

    Secrets come from the environment or from files, and are never printed.
    """

    model_config = SettingsConfigDict(yaml_file=CONFIG_DIR / "settings.yaml")

    database_url: SecretStr = SecretStr("")
    read_database_url: SecretStr = SecretStr("")
    read_wait_s: float = Field(default=0.1, gt=0)
    clusters: Path | None = None
    tenant_moves_per_day: int = Field(default=0, ge=0, le=100)
    secret_key: SecretStr = SecretStr("")
    former_secret_key: SecretStr = SecretStr("")
    embedded: bool = False
    home: Path = Path(".mnema")
    config_dir: Path = CONFIG_DIR
    embedder: Literal["local", "openai"] = "local"
    embedding_model: str = ""
    embedding_dimension: int = Field(default=384, ge=1, le=4000)
    embedding_base_url: str = ""
    embedding_api_key: SecretStr = SecretStr("")
    embedding_api_key_file: str = ""
    embedding_timeout_s: float = Field(default=15.0, gt=0)
    embedding_query_prefix: str = Field(default="", max_length=1000)
    embedding_passage_prefix: str = Field(default="", max_length=1000)
    embedding_query_body: dict[str, JsonValue] = Field(default={})
    embedding_passage_body: dict[str, JsonValue] = Field(default={})
    embedding_send_dimensions: bool | None = None
    embedding_encoding: Literal["float", "base64"] = "float"
    embedding_window: int = Field(default=0, ge=0)
    embedding_batch_items: int = Field(default=128, ge=1, le=2048)
    embedding_batch_tokens: int = Field(default=100_000, ge=1, le=1_000_000)
    embedding_threads: int = Field(default=2, ge=1)
    reranker: Literal["late_interaction", "local", "fastembed", "http", "none"] = "late_interaction"
    reranker_model: str = ""
    reranker_api: Literal["cohere", "jina", "tei"] = "tei"
    reranker_base_url: str = ""
    reranker_api_key: SecretStr = SecretStr("")
    reranker_api_key_file: str = ""
    reranker_timeout_s: float = Field(default=3.0, gt=0)
    llm: Literal["none", "openai"] = "none"
    llm_base_url: str = ""
    llm_model: str = ""
    llm_api_key: SecretStr = SecretStr("")
    llm_api_key_file: str = ""
    llm_timeout_s: float = Field(default=60.0, gt=0)
    llm_length_parameter: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    llm_reasoning_effort: str = ""
    llm_extra_body: dict[str, Any] = Field(default={})
    llm_headers: dict[str, SecretStr] = Field(default={})
    chat_upstream_url: str = ""
    chat_upstream_key: SecretStr = SecretStr("")
    chat_upstream_key_file: str = ""
    chat_anthropic_url: str = ""
    chat_anthropic_key: SecretStr = SecretStr("")
    chat_anthropic_key_file: str = ""
    chat_upstream_hosts: list[HostRule] = Field(default=[])
    chat_private_upstreams: bool = False
    chat_connect_timeout_s: float = Field(default=5.0, gt=0)
    chat_first_byte_timeout_s: float = Field(default=120.0, gt=0)
    chat_idle_timeout_s: float = Field(default=60.0, gt=0)
    chat_max_connections: int = Field(default=200, ge=1)
    chat_max_answer_bytes: int = Field(default=32 << 20, ge=1024)
    webhook_hosts: list[HostRule] = Field(default=[])
    webhook_private: bool = False
    webhook_timeout_s: float = Field(default=15.0, gt=0, le=60)
    chat_spool: Path | None = None
    chat_spool_bytes: int = Field(default=64 << 20, ge=0)
    blob_store: Literal["postgres", "s3"] = "postgres"
    blob_s3_bucket: str = ""
    blob_s3_prefix: str = ""
    blob_s3_endpoint_url: str = ""
    blob_s3_region: str = "us-east-1"
    blob_s3_access_key: SecretStr = SecretStr("")
    blob_s3_secret_key: SecretStr = SecretStr("")
    blob_s3_timeout_s: float = Field(default=10.0, gt=0)
    source_roots: list[str] = Field(default=[])
    pool_min: int = Field(default=2, ge=1)
    pool_max: int = Field(default=10, ge=1)
    database_timeout_s: float = Field(default=15.0, gt=0)
    database_statement_cache: int = Field(default=100, ge=0)
    store_batch_s: float = Field(default=5.0, gt=0)
    max_body_bytes: int = Field(default=1 << 20, ge=1024)
    max_chat_bytes: int = Field(default=32 << 20, ge=1024)
    max_bulk_bytes: int = Field(default=1 << 28, ge=1024)
    max_checkpoint_bytes: int = Field(default=5 << 20, ge=1024)
    max_bodies_bytes: int = Field(default=128 << 20, ge=1 << 20)
    max_uploads: int = Field(default=16, ge=1)
    body_patience_s: float = Field(default=20.0, gt=0)
    body_least_rate: int = Field(default=8192, ge=1)
    redis_url: SecretStr = SecretStr("")
    worker_queue: str = Field(default="mnema", pattern="^[a-z0-9_.-]{1,50}$")
    job_soft_limit_s: float = Field(default=600, gt=0)
    sweep_s: float = Field(default=2.0, gt=0)
    schedule_s: float = Field(default=30.0, gt=0)
    operator_key_file: str = ""
    key_cache_s: float = Field(default=2.0, ge=0, le=4)
    limits_exchange_s: float = Field(default=0.2, gt=0)
    metrics_token: SecretStr = SecretStr("")
    cors_origins: list[Origin] = Field(default=[])
    docs: bool = True
    memory_reconcile_enabled: bool = True
    mcp_ids: bool = True
    mcp_hosts: list[HostRule] = Field(default=[])
    mcp_tool_names: dict[ToolKind, list[ToolName]] = Field(
        default={
            "query": ["memory.query", "memory_query"],
            "remember": ["memory.remember", "memory_remember"],
            "history": ["memory.history", "memory_history"],
            "facts": ["memory.facts", "memory_facts"],
            "forget": ["memory.forget", "memory_forget"],
            "correct": ["memory.correct", "memory_correct"],
        }
    )

    @field_validator("mcp_tool_names")
    @classmethod
    def _one_tool_a_name(cls, names: dict[ToolKind, list[ToolName]]) -> dict[ToolKind, list[ToolName]]:
        every = [name for given in names.values() for name in given]
        if len(every) != len(set(every)):
            raise ValueError("two tools have the same name")
        return names

    @field_validator("source_roots")
    @classmethod
    def _usable_roots(cls, roots: list[str]) -> list[str]:
        for root in roots:
            parts = root.strip("/").split("/")
            if not root.startswith("/") or any(part in ("", ".", "..") for part in parts) or "\0" in root:
                raise ValueError("every entry must be an absolute path without '.' and '..', and not the root '/'")
            if parts[0] in ("proc", "sys", "dev"):
                raise ValueError("/proc, /sys and /dev hold no documents")
        return roots

    @model_validator(mode="after")
    def _take_first_cluster(self) -> "Settings":
        """Take the database of the first cluster as that of the settings, if there are clusters."""
        if self.clusters is not None:
            first = next(iter(load_clusters(self.clusters).values()))
            self.database_url, self.read_database_url = first.database_url, first.read_database_url
        return self

    @model_validator(mode="before")
    @classmethod
    def _one_switch_of_buckets(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Read `long_memories_log` of a settings file, which says the opposite of `memory_reconcile_enabled`."""
        rest = {name: value for name, value in given.items() if name != "long_memories_log"}
        is_off = TypeAdapter(bool).validate_python(given.get("long_memories_log") or False)
        return rest | {"memory_reconcile_enabled": False} if is_off else rest

    def erasure_secret(self) -> bytes:
        """Return the key of the tombstones, MNEMA_SECRET_KEY, which must be the same on every replica.

        `mnema up` (`embedded`) creates a key once in `home` if the setting is missing. Otherwise raise ConfigError for
        a missing or too short key.
        """
        given = self.secret_key.get_secret_value().encode(errors="surrogateescape")  # an environment may hold any bytes
        if len(given) >= SECRET_BYTES:
            return given
        if given or not self.embedded:
            raise ConfigError(NO_SECRET if not given else SHORT_SECRET)
        file = self.home / "secret.key"
        if not file.exists():
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            with contextlib.suppress(FileExistsError), open(file, "xb", opener=_open_private) as stream:
                stream.write(secrets.token_bytes(32))
        return file.read_bytes()

    def former_secret(self) -> bytes | None:
        """Return MNEMA_FORMER_SECRET_KEY, with which stored keys may still be encrypted; None without one.

        `mnema up` (`embedded`) takes the key that it made in `home`, if a setting has replaced it. Raise ConfigError
        for a too short one.
        """
        given = self.former_secret_key.get_secret_value().encode(errors="surrogateescape")
        if given and len(given) < SECRET_BYTES:
            raise ConfigError(f"MNEMA_FORMER_SECRET_KEY is too short: at least {SECRET_BYTES} bytes")
        own = self.home / "secret.key"
        if not given and self.embedded and self.secret_key.get_secret_value() and own.exists():
            return own.read_bytes()
        return given or None

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], *sources: PydanticBaseSettingsSource, **named: PydanticBaseSettingsSource
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of LayeredSettings, then variables that other programs share, then the YAML file."""
        above = super().settings_customise_sources(settings_cls, *sources, **named)
        usual = InitSettingsSource(settings_cls, _shared_llm_settings() | _shared_memory_settings())
        return *above, usual, YamlConfigSettingsSource(settings_cls)


def _shared_llm_settings() -> dict[str, Any]:
    """Return chat model settings from the variables LLM_*, which many programs share; empty without LLM_BASE_URL."""
    if not (base_url := os.environ.get("LLM_BASE_URL")):
        return {}
    model = os.environ.get("LLM_MODEL") or "default"
    key = os.environ.get("LLM_API_KEY", "")
    return {"llm": "openai", "llm_base_url": base_url, "llm_model": model, "llm_api_key": key}


def _shared_memory_settings() -> dict[str, Any]:
    """Return the switch of buckets from MEMORY_RECONCILE_ENABLED, or from LONG_MEMORIES_LOG, which says the opposite.

    Either switches buckets off, and so does MNEMA_LONG_MEMORIES_LOG. An empty variable is ignored.
    """
    if _read_switch("LONG_MEMORIES_LOG") or _read_switch("MNEMA_LONG_MEMORIES_LOG"):
        return {"memory_reconcile_enabled": False}
    enabled = os.environ.get("MEMORY_RECONCILE_ENABLED")
    return {"memory_reconcile_enabled": enabled} if enabled else {}


def _read_switch(name: str) -> bool:
    """Return a variable of the environment as pydantic reads it. Raise ConfigError for any other word."""
    try:
        return TypeAdapter(bool).validate_python(os.environ.get(name) or False)
    except ValidationError as error:
        raise ConfigError(f"{name}: {error.errors()[0]['msg']}") from error
