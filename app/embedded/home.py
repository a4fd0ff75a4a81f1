"""The files of an embedded installation in MNEMA_HOME besides PostgreSQL's data: secrets, demo.env, process ids."""

import contextlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import IO, Any

from mnema_wire.installed import read_env
from pydantic import SecretStr

from app.config.settings import Settings
from app.embedded.postgres import Cluster, EmbeddedPostgres
from app.embedded.postgres_access import command_line

DATABASE = "mnema"
COMMANDS = {
    "supervisor": re.compile(r"(mnema|app\.cli\.main) up\b"),
    "server": re.compile(r"-m app\.api\b"),
    "worker": re.compile(r"workers\.app worker"),
    "beat": re.compile(r"workers\.app beat"),
    "redis": re.compile(r"redis-server"),
    "console": re.compile(r"-m console\b"),
}
"""Patterns of the command lines of our processes. They detect a process id that now belongs to another program."""


class Home:
    """The folder of an embedded installation, by default MNEMA_HOME."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = (path or Settings().home).expanduser().resolve()
        self.postgres = EmbeddedPostgres(self.path)
        self.env_file = self.path / "demo.env"
        self.run_file = self.path / "run.json"
        self.redis_file = self.path / "redis.url"
        self.console_file = self.path / "console.url"
        self.sample_file = self.path / "sample.json"
        self._secrets_file = self.path / "secrets.json"
        self._console_secret_file = self.path / "console.secret"

    @property
    def is_installed(self) -> bool:
        """True if `mnema up` has ever run here."""
        return self._secrets_file.exists()

    def load_passwords(self) -> dict[str, str]:
        """Return the database passwords of mnema_admin and mnema_app. The first call creates them."""
        if not self._secrets_file.exists():
            passwords = {role: secrets.token_urlsafe(32) for role in ("mnema_admin", "mnema_app")}
            self.write_private(self._secrets_file, json.dumps(passwords))
        loaded: dict[str, str] = json.loads(self._secrets_file.read_text(encoding="utf-8"))
        return loaded

    def load_console_secret(self) -> str:
        """Return the secret that encrypts the console's session cookies. The first call creates it."""
        if not self._console_secret_file.exists():
            self.write_private(self._console_secret_file, secrets.token_urlsafe(32))
        return self._console_secret_file.read_text(encoding="utf-8")

    def role_url(self, cluster: Cluster, role: str) -> str:
        """Return the database URL of the role mnema_admin or mnema_app."""
        return cluster.database_url(DATABASE, role, self.load_passwords()[role])

    def server_settings(self, cluster: Cluster) -> Settings:
        """Return the server's settings: this home, and the database as mnema_app."""
        return Settings(database_url=SecretStr(self.role_url(cluster, "mnema_app")), home=self.path, embedded=True)

    def settings_with_redis(self, cluster: Cluster) -> Settings:
        """Return the server's settings with the Redis of `mnema up`, if it runs."""
        settings = self.server_settings(cluster)
        with contextlib.suppress(OSError):
            settings.redis_url = SecretStr(self.redis_file.read_text(encoding="utf-8"))
        return settings

    def demo_env(self) -> dict[str, str]:
        """Return MNEMA_URL, MNEMA_API_KEY and DATABASE_URL from demo.env, {} if the file does not exist."""
        return read_env(self.env_file)

    def write_demo_env(self, values: dict[str, str]) -> None:
        """Replace demo.env, with mode 0600. A shell that reads it exports the values to the programs it starts."""
        self.write_private(self.env_file, "".join(f"export {name}={value}\n" for name, value in values.items()))

    def running_pids(self) -> dict[str, Any]:
        """Return the process ids of the supervisor and its processes by name, as far as they are alive."""
        try:
            recorded = json.loads(self.run_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return {name: pid for name, pid in recorded.items() if COMMANDS[name].search(command_line(pid))}

    def record_running(self, services: dict[str, int]) -> None:
        """Write the process ids of this supervisor and of `services` to run.json."""
        self.write_private(self.run_file, json.dumps({"supervisor": os.getpid(), **services}))

    def open_log(self, name: str) -> IO[bytes]:
        """Open the log of a service for appending, with mode 0600, even if the file exists already."""
        descriptor = os.open(self.path / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.fchmod(descriptor, 0o600)
        return os.fdopen(descriptor, "ab")

    def write_private(self, file: Path, text: str) -> None:
        """Write `text` to `file` atomically, with mode 0600."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = file.with_suffix(f"{file.suffix}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        draft.replace(file)
