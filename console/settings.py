"""Settings of the console: MNEMA_CONSOLE_* variables, which override files of the same name in MNEMA_SECRETS_DIR."""

import os
import secrets
from typing import Annotated, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SecretsSettingsSource
from pydantic_settings import SettingsConfigDict as Config

SECRETS_DIR = "/run/secrets"
SECRET_BYTES = 32
Origin = Annotated[str, Field(pattern=r"^https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$")]


class ConsoleSettings(BaseSettings):
    """The settings of one console process."""

    model_config = Config(env_prefix="MNEMA_CONSOLE_", env_ignore_empty=True, extra="ignore")

    api_url: str = "http://127.0.0.1:8000"
    """Address of the API, as this process reaches it."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(8080, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    secret: SecretStr = SecretStr("")
    """Encrypts the session cookies. Empty: a new one at each start, so a restart signs everybody out."""
    former_secret: SecretStr = SecretStr("")
    """The secret before a change; sessions that it encrypted stay valid."""
    session_hours: float = Field(12, gt=0, le=24 * 30)
    """Hours until a session ends."""
    tls: bool = False
    """True if people reach the console by https. Cookies are then sent over TLS only."""
    origins: Annotated[list[Origin], NoDecode] = []
    """Origins under which people reach the console. Empty: the host of each request."""
    trusted_proxies: str = ""
    """Addresses of proxies whose X-Forwarded-For and X-Forwarded-Proto count, separated by commas."""
    attempts: int = Field(10, ge=1, le=1000)
    """Wrong keys that one address may try within `attempts_minutes`."""
    attempts_minutes: float = Field(15, gt=0, le=24 * 60)
    """Minutes over which wrong keys count."""
    timeout_s: float = Field(30, gt=0, le=300)
    """Seconds to wait for the API."""
    upload_mb: int = Field(64, ge=1, le=1024)
    """Largest upload of a source."""
    check_s: float = Field(30, ge=0.1, le=3600)
    """Seconds between two checks that the key of a session with open pages is still valid."""
    connections: int = Field(1000, ge=10, le=100_000)
    """Connections that the process takes at once; it answers 503 to more."""

    @field_validator("origins", mode="before")
    @classmethod
    def _split_origins(cls, value: object) -> object:
        if isinstance(value, str):
            return [part.strip().rstrip("/").lower() for part in value.split(",") if part.strip()]
        return value

    @field_validator("secret", "former_secret")
    @classmethod
    def _check_length(cls, value: SecretStr) -> SecretStr:
        if 0 < len(value.get_secret_value().encode()) < SECRET_BYTES:
            raise ValueError(f"too short: at least {SECRET_BYTES} bytes; once: `openssl rand -hex 32`")
        return value

    @model_validator(mode="after")
    def _make_secret(self) -> Self:
        if not self.secret.get_secret_value():
            self.secret = SecretStr(secrets.token_urlsafe(SECRET_BYTES))
        return self

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
