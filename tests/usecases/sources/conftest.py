"""Fixtures of the tests of sources: an application that may read a folder of the test, and a driver of index jobs."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import pytest
import yaml

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.config.yaml_files import CONFIG_DIR
from app.ports import Embedder
from app.providers import source_folders
from tests.factories import Caller, Clock, KeepOpen, make_caller
from tests.usecases.sources.indexing import CountedFolders, Indexing

MakeIndexing = Callable[..., Awaitable[Indexing]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the source."""
    (tmp_path / "allowed" / "root").mkdir(parents=True)
    return tmp_path / "allowed" / "root"


@pytest.fixture
def folders(root: Path, monkeypatch: pytest.MonkeyPatch) -> CountedFolders:
    """The folders of the application. They trust the stamp of a file that has just been written."""
    monkeypatch.setattr(source_folders, "UNSETTLED_NS", 0)
    return CountedFolders([str(root.parent)])


@pytest.fixture
def model(local_model: Embedder) -> KeepOpen:
    """The real model, which a test can make fail."""
    return KeepOpen(local_model)


@pytest.fixture
async def make_indexing(
    settings: Settings,
    model: KeepOpen,
    clock: Clock,
    folders: CountedFolders,
    sql: asyncpg.Connection,
    root: Path,
    tmp_path: Path,
) -> AsyncIterator[MakeIndexing]:
    """A builder of drivers: with changed settings of sources, for the tenant of `caller` or a new one."""
    async with AsyncExitStack() as stack:

        async def make(caller: Caller | None = None, url: str | None = None, **sources: object) -> Indexing:
            changed = settings.model_copy(update={"config_dir": _write_config(tmp_path, sources)})
            if url is not None:
                changed = changed.model_copy(update={"database_url": url, "pool_max": 1})
            doubles = Doubles(embedder=model, clock=clock, folders=folders)
            app = await stack.enter_async_context(build_application(changed, doubles))
            return Indexing(app, caller or await make_caller(app), sql, root, folders, model)

        yield make


@pytest.fixture
async def indexing(make_indexing: MakeIndexing) -> Indexing:
    """A driver of index jobs on the folder."""
    return await make_indexing()


@pytest.fixture
def app(indexing: Indexing) -> Application:
    """The application of the driver."""
    return indexing.app


def _write_config(folder: Path, sources: dict[str, object]) -> Path:
    config = folder / f"config-{len(list(folder.iterdir()))}"
    shutil.copytree(CONFIG_DIR, config)
    file = config / "policies.yaml"
    policies = yaml.safe_load(file.read_text(encoding="utf-8"))
    policies["sources"] |= sources
    policies["jobs"] |= {"backoff_s": 0.001, "backoff_max_s": 0.001}
    file.write_text(yaml.safe_dump(policies, allow_unicode=True), encoding="utf-8")
    return config
