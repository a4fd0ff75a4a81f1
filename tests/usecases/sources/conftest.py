"""Fixtures of the tests of sources: an application that may read a folder of the test, and a driver of index jobs."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.ports import Embedder
from tests.factories import Caller, Clock, KeepOpen
from tests.usecases.sources.indexing import CountedFolders, Indexing


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the source."""
    (tmp_path / "allowed" / "root").mkdir(parents=True)
    return tmp_path / "allowed" / "root"


@pytest.fixture
def folders(root: Path) -> CountedFolders:
    """The folders of the application."""
    return CountedFolders([str(root.parent)])


@pytest.fixture
def model(local_model: Embedder) -> KeepOpen:
    """The real model, which a test can make fail."""
    return KeepOpen(local_model)


@pytest.fixture
async def app(settings: Settings, model: KeepOpen, clock: Clock, folders: CountedFolders) -> AsyncIterator[Application]:
    """An application with real parsers."""
    async with build_application(settings, Doubles(embedder=model, clock=clock, folders=folders)) as app:
        yield app


@pytest.fixture
def indexing(app: Application, caller: Caller, sql: asyncpg.Connection, root: Path) -> Indexing:
    """A driver of index jobs on the folder."""
    return Indexing(app, caller.scope, sql, root)
