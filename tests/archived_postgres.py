"""A PostgreSQL whose write-ahead log (WAL) is archived, and its recovery to an earlier time in a new cluster."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.background import until
from tests.own_postgres import OwnPostgres, connected

SETTINGS = {
    "wal_level": "replica",
    "max_wal_senders": "4",
    "synchronous_commit": "on",
    "shared_buffers": "64MB",
}


class ArchivedPostgres(OwnPostgres):
    """A cluster below `folder` that copies each finished segment of its WAL to a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._archive = folder / "archive"
        self._base = folder / "base"
        folder.chmod(0o700)
        self._archive.mkdir()
        draft, target = self._archive / ".%f", self._archive / "%f"
        command = f'test ! -f "{target}" && cp "%p" "{draft}" && mv "{draft}" "{target}"'
        archiving = {"archive_mode": "on", "archive_command": command}
        super().__init__(folder / "first", SETTINGS | archiving, durable=False)
        self._account = self.home.postgres.data_dir.stat()
        self._hand_over(self._archive)  # until then PostgreSQL tries again

    def back_up(self) -> None:
        """Take a base backup while the cluster is in use. It needs the archive: it contains no WAL."""
        program, url = self.home.postgres.binary_path("pg_basebackup"), self.cluster.database_url()
        flags = ("--wal-method=none", "--checkpoint=fast", "--no-sync", "--no-manifest")
        command = [program, f"--dbname={url}", f"--pgdata={self._base}", *flags]
        subprocess.run(command, check=True, timeout=120, capture_output=True)

    async def name_time(self, name: str) -> None:
        """Create a restore point."""
        async with connected(self.superuser) as sql:
            await sql.execute("SELECT pg_create_restore_point($1)", name)

    async def archive_all(self) -> int:
        """Wait until the archive has the WAL so far. Return the last transaction id."""
        async with connected(self.superuser) as sql:
            last = int(await sql.fetchval("SELECT pg_current_xact_id()::text::bigint"))
            segment = await sql.fetchval("SELECT pg_walfile_name(pg_switch_wal())")

        async def archived() -> bool:
            return (self._archive / segment).exists()

        await until(archived, f"the archive to have {segment}", 60)
        return last

    def destroy(self) -> None:
        """Kill the cluster and delete its files. Base backup, archive and the passwords stay."""
        self.kill()
        self.home.postgres.stop_server("immediate")
        shutil.rmtree(self.home.postgres.data_dir)

    async def recover(self, name: str) -> OwnPostgres:
        """Return a new cluster, recovered from base backup and archive to a restore point and promoted."""
        home = self._folder / "second"
        home.mkdir(mode=0o700)
        for file in ("postgres.password", "secrets.json"):
            shutil.copy2(self.home.path / file, home)
        data = home / "postgres" / "data"
        data.parent.mkdir(mode=0o700)
        self._base.rename(data)
        (data / "recovery.signal").touch()
        for path in (data.parent, data, *data.rglob("*")):
            self._hand_over(path)
        recovery = {
            "restore_command": f'cp "{self._archive}/%f" "%p"',
            "recovery_target_name": name,
            "recovery_target_action": "promote",
        }
        made = OwnPostgres(home, SETTINGS | recovery, durable=False)

        async def promoted() -> bool:
            async with connected(made.superuser) as sql:
                return not await sql.fetchval("SELECT pg_is_in_recovery()")

        await until(promoted, "the end of the recovery", 60)
        return made

    def _hand_over(self, path: Path) -> None:
        """Give a file to the account that runs the servers."""
        os.chown(path, self._account.st_uid, self._account.st_gid)
