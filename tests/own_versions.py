"""Servers of several versions of PostgreSQL, for tests of what each of them allows."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from app.embedded import postgres_access as access
from app.embedded.postgres import free_port

PASSWORD: Final = "superuser of the tests"
LONG_S: Final = 120.0
BUILTIN: Final = ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
LOCALES: Final[Mapping[int, tuple[str, ...]]] = {16: ("--locale=C.UTF-8",), 17: BUILTIN, 18: BUILTIN}
"""The options of initdb for letters beyond ASCII."""


def programs_of(major: int) -> Path | None:
    """Return the folder of a version's programs, with pgvector, or None if this machine has none.

    The wheel of the embedded server has two versions; Debian's package `postgresql-<major>-pgvector` has one.
    """
    places = {16: access.package() / "pginstall", 18: access.package() / "pginstall18"}
    place = places.get(major, Path(f"/usr/lib/postgresql/{major}"))
    libraries = (place / "lib" / "vector.so", place / "lib" / "postgresql" / "vector.so")
    return place if any(library.exists() for library in libraries) else None


@contextmanager
def running(major: int) -> Iterator[str]:
    """Run a server of this version, and yield its superuser's URL. `programs_of` must have found it.

    MNEMA_TEST_POSTGRES_<MAJOR> is the URL of a superuser on a throw-away server that is used instead.
    """
    if given := os.environ.get(f"MNEMA_TEST_POSTGRES_{major}"):
        yield given
        return
    found = programs_of(major)
    assert found is not None
    folder = Path(tempfile.mkdtemp(prefix="mnema-version-"))
    account = access.server_account(folder / "data", folder)
    try:
        if account is not None:
            access.hand_over(folder, account)
            found = access.reachable_install(found, folder, account)
            access.open_paths((folder, found / "bin"), account)
        access.write_private(folder / "password", PASSWORD, account)
        data = f"--pgdata={folder / 'data'}"
        login = ("--auth=scram-sha-256", "--username=postgres", f"--pwfile={folder / 'password'}")
        _run(account, found / "bin" / "initdb", data, *login, "--encoding=UTF8", *LOCALES[major], "--no-sync")
        port = free_port()
        options = f"-c port={port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        control = (found / "bin" / "pg_ctl", data)
        _run(account, *control, f"--log={folder / 'log'}", "--wait", "--silent", f"--options={options}", "start")
        try:
            yield f"postgresql://postgres:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{port}/postgres"
        finally:
            _run(account, *control, "--mode=immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(account: access.Account | None, program: Path, *args: str) -> None:
    done: subprocess.CompletedProcess[str] = access.run_as(account, program, *args, timeout=LONG_S)
    assert done.returncode == 0, done.stdout + done.stderr
