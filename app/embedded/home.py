"""What an embedded installation keeps in MNEMA_HOME besides PostgreSQL's data: secrets, demo.env, who is running."""

import contextlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import IO, Any

from pydantic import SecretStr

from app.config.settings import Settings
from app.embedded.postgres import Cluster, EmbeddedPostgres
from app.embedded.postgres_access import command_line

DATABASE = "mnema"
COMMANDS = {
    "supervisor": re.compile(r"(mnema|app\.cli\.main) up\b"),
    "server": re.compile(r"app\.api\.main"),
    "worker": re.compile(r"workers\.app worker"),
    "beat": re.compile(r"workers\.app beat"),
    "redis": re.compile(r"redis-server"),
}
"""What a live process of ours is called; a process id may have gone to another program."""


class Home:
    """One installation's folder."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = (path or Settings().home).expanduser().resolve()
        self.postgres = EmbeddedPostgres(self.path)
        self.env_file = self.path / "demo.env"
        self.run_file = self.path / "run.json"
        self.redis_file = self.path / "redis.url"
        self.sample_file = self.path / "sample.json"
        self._secrets_file = self.path / "secrets.json"

    @property
    def is_installed(self) -> bool:
        """Whether `mnema up` ever ran here."""
        return self._secrets_file.exists()

    def load_passwords(self) -> dict[str, str]:
        """The database passwords of mnema_admin and mnema_app, made at the first call."""
        if not self._secrets_file.exists():
            made = {role: secrets.token_urlsafe(32) for role in ("mnema_admin", "mnema_app")}
            self.write_private(self._secrets_file, json.dumps(made))
        loaded: dict[str, str] = json.loads(self._secrets_file.read_text(encoding="utf-8"))
        return loaded

    def role_url(self, cluster: Cluster, role: str) -> str:
        """The database URL for one of our roles."""
        return cluster.database_url(DATABASE, role, self.load_passwords()[role])

    def server_settings(self, cluster: Cluster) -> Settings:
        """The server's settings: this home, and the database as mnema_app."""
        return Settings(database_url=SecretStr(self.role_url(cluster, "mnema_app")), home=self.path, embedded=True)

    def settings_with_redis(self, cluster: Cluster) -> Settings:
        """The same with the Redis that `mnema up` uses, while it runs."""
        found = self.server_settings(cluster)
        with contextlib.suppress(OSError):
            found.redis_url = SecretStr(self.redis_file.read_text(encoding="utf-8"))
        return found

    def demo_env(self) -> dict[str, str]:
        """MNEMA_URL, MNEMA_API_KEY and DATABASE_URL as last written; empty when there is none."""
        return read_env(self.env_file)

    def write_demo_env(self, values: dict[str, str]) -> None:
        """Replace demo.env; readable by its owner alone."""
        self.write_private(self.env_file, "".join(f"{name}={value}\n" for name, value in values.items()))

    def running_pids(self) -> dict[str, Any]:
        """The process ids of the supervisor and what it started, as far as they live."""
        try:
            found = json.loads(self.run_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return {name: pid for name, pid in found.items() if COMMANDS[name].search(command_line(pid))}

    def record_running(self, services: dict[str, int]) -> None:
        """Write down who supervises here and what it has started."""
        self.write_private(self.run_file, json.dumps({"supervisor": os.getpid(), **services}))

    def open_log(self, name: str) -> IO[bytes]:
        """A service's log to append to; readable by its owner alone, also one of before."""
        descriptor = os.open(self.path / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.fchmod(descriptor, 0o600)
        return os.fdopen(descriptor, "ab")

    def write_private(self, file: Path, text: str) -> None:
        """Write atomically with mode 0600."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = file.with_suffix(f"{file.suffix}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        draft.replace(file)


def read_env(file: Path) -> dict[str, str]:
    """NAME=value lines of a file; empty when it cannot be read."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
