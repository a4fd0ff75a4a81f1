"""Keep `migrations/schema`, the current schema as files, in step with the migrations: `make schema`."""

import asyncio
import difflib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from migrations.describe import describe

FOLDER = Path(__file__).parent / "schema"


def read_files(folder: Path = FOLDER) -> dict[str, str]:
    """Return the text of each file in the folder, by its path in it."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in found}


def write_files(files: Mapping[str, str], folder: Path = FOLDER) -> None:
    """Write the files and delete all others in the folder."""
    for path in read_files(folder).keys() - files.keys():
        (folder / path).unlink()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def difference(stored: Mapping[str, str], current: Mapping[str, str]) -> str:
    """Return a unified diff from the stored files to the current ones; it is empty if they are equal."""
    return "\n".join(
        line
        for path in sorted({*stored, *current})
        for line in difflib.unified_diff(
            stored.get(path, "").splitlines(), current.get(path, "").splitlines(), path, path, lineterm="", n=1
        )
    )


async def _migrated(superuser_url: str) -> dict[str, str]:
    """Migrate a new database and describe it."""
    from app.storage.operations import administration as admin
    from app.storage.operations.bootstrap import bootstrap_cluster

    passwords = {"mnema_admin": "admin", "mnema_app": "app"}
    await bootstrap_cluster(superuser_url, "mnema", passwords)
    server = superuser_url.rsplit("@", 1)[1].rsplit("/", 1)[0]
    await admin.migrate_schema(f"postgresql://mnema_admin:{passwords['mnema_admin']}@{server}/mnema")
    return await describe(f"{superuser_url.rsplit('/', 1)[0]}/mnema")


def main() -> None:
    """Write the schema of a new database, on a PostgreSQL server of its own."""
    from app.embedded.postgres import EmbeddedPostgres

    with tempfile.TemporaryDirectory(prefix="mnema-schema-") as home:
        server = EmbeddedPostgres(Path(home), durable=False)
        try:
            write_files(asyncio.run(_migrated(server.start_server().database_url())))
        finally:
            server.stop_server("immediate")


if __name__ == "__main__":
    main()
