"""Settings of one installation: config/settings.yaml under environment variables MNEMA_*."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource

from app.config.loader import CONFIG_DIR

ToolKind = Literal["query", "remember", "history"]
ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class Settings(BaseSettings):
    """Times in seconds, sizes in bytes. Secrets come from the environment only and are never printed."""

    model_config = SettingsConfigDict(env_prefix="MNEMA_", extra="ignore", yaml_file=CONFIG_DIR / "settings.yaml")

    database_url: SecretStr = SecretStr("")
    secret_key: SecretStr = SecretStr("")
    home: Path = Path(".mnema")
    config_dir: Path = CONFIG_DIR
    embedder: Literal["local", "openai"] = "local"
    embedding_model: str = "all-MiniLM-L6-v2"
    embedding_dimension: int = Field(default=384, ge=1, le=4000)
    embedding_base_url: str = ""
    embedding_api_key: SecretStr = SecretStr("")
    embedding_timeout_s: float = Field(default=15.0, gt=0)
    embedding_threads: int = Field(default=2, ge=1)
    pool_min: int = Field(default=2, ge=1)
    pool_max: int = Field(default=10, ge=1)
    max_body_bytes: int = Field(default=1 << 20, ge=1024)
    max_bulk_bytes: int = Field(default=1 << 28, ge=1024)
    redis_url: SecretStr = SecretStr("")
    worker_queue: str = Field(default="mnema", pattern="^[a-z0-9_.-]{1,50}$")
    job_soft_limit_s: float = Field(default=600, gt=0)
    sweep_s: float = Field(default=2.0, gt=0)
    schedule_s: float = Field(default=30.0, gt=0)
    key_cache_s: float = Field(default=2.0, ge=0, le=5)
    mcp_tool_names: dict[ToolKind, list[ToolName]] = Field(
        default={
            "query": ["memory.query", "memory_query"],
            "remember": ["memory.remember", "memory_remember"],
            "history": ["memory.history", "memory_history"],
        }
    )

    @field_validator("mcp_tool_names")
    @classmethod
    def _one_tool_a_name(cls, names: dict[ToolKind, list[ToolName]]) -> dict[ToolKind, list[ToolName]]:
        every = [name for given in names.values() for name in given]
        if len(every) != len(set(every)):
            raise ValueError("a name is given twice")
        return names

    def erasure_secret(self) -> bytes:
        """The key of the tombstones: MNEMA_SECRET_KEY, else one made once in `home`; the same on every replica."""
        if given := self.secret_key.get_secret_value():
            return given.encode()
        file = self.home / "secret.key"
        if not file.exists():
            self.home.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError), open(file, "xb", opener=_private) as stream:
                stream.write(secrets.token_bytes(32))
        return file.read_bytes()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then the file."""
        return init_settings, env_settings, YamlConfigSettingsSource(settings_cls)
