"""Fixtures of the use-case tests: a superuser's connection, and applications with an edited configuration."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import asyncpg
import pytest
import yaml
from pgvector.asyncpg import register_vector

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.config.yaml_files import CONFIG_DIR
from app.domain.principal import Principal
from app.ports import Embedder
from tests.conftest import Database
from tests.factories import Caller, Clock
from tests.fake_llm import FakeLlm, fake_llm
from tests.usecases.reflecting import with_model

Section = Mapping[str, Any]


class Configured(Protocol):
    """A function that builds an application on the test's database with an edited copy of `config/`."""

    async def __call__(
        self,
        *,
        policies: Mapping[str, Section] = ...,
        categories: Mapping[str, Section] = ...,
        bands: Section = ...,
        capture: Section = ...,
        llm: FakeLlm | None = ...,
    ) -> Application:
        """Build it.

        `policies` by section of policies.yaml, `categories` by name, `bands` of the embedding model, `capture` by field
        of capture.yaml, and the scripted model.
        """
        ...


@pytest.fixture
async def sql(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """A superuser's connection, which sees every row and bypasses row-level security."""
    connection = await asyncpg.connect(database.superuser)
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",  # COPY needs a version byte, then the text
        encoder=lambda value: b"\x01" + json.dumps(value).encode(),
        decoder=lambda value: json.loads(value[1:]),
    )
    await register_vector(connection)
    yield connection
    await connection.close()


@pytest.fixture
def scope(caller: Caller) -> Principal:
    """The principal that owns the conversations."""
    return caller.scope


@pytest.fixture
async def llm() -> AsyncIterator[FakeLlm]:
    """A scripted model."""
    async with fake_llm() as running:
        yield running


@pytest.fixture
async def configured(settings: Settings, embedder: Embedder, clock: Clock, tmp_path: Path) -> AsyncIterator[Configured]:
    """A builder as Configured describes it. It closes its applications after the test."""
    numbers = count()
    async with AsyncExitStack() as stack:

        async def build(
            *,
            policies: Mapping[str, Section] | None = None,
            categories: Mapping[str, Section] | None = None,
            bands: Section | None = None,
            capture: Section | None = None,
            llm: FakeLlm | None = None,
        ) -> Application:
            directory = tmp_path / f"config-{next(numbers)}"
            await asyncio.to_thread(_edit, directory, policies or {}, categories or {}, bands or {})
            _rewrite(directory / "capture.yaml", lambda file: file.update(capture or {}))
            edited = settings.model_copy(update={"config_dir": directory})
            edited = edited if llm is None else with_model(edited, llm)
            return await stack.enter_async_context(build_application(edited, Doubles(embedder=embedder, clock=clock)))

        yield build


def _edit(directory: Path, policies: Mapping[str, Section], categories: Mapping[str, Section], bands: Section) -> None:
    shutil.copytree(CONFIG_DIR, directory)
    _rewrite(
        directory / "policies.yaml", lambda file: [file[name].update(changes) for name, changes in policies.items()]
    )
    _rewrite(directory / "models" / "all-MiniLM-L6-v2.yaml", lambda file: file.update(bands))

    def add(file: dict[str, Any]) -> None:
        system = file["categories"]["system"]
        kept = [entry for entry in system if entry["name"] not in categories]
        known = {entry["name"]: entry for entry in system}
        file["categories"]["system"] = kept + [
            known.get(name, {}) | {"name": name} | dict(changes) for name, changes in categories.items()
        ]

    _rewrite(directory / "memory_cat_config.yaml", add)


def _rewrite(path: Path, change: Any) -> None:
    file = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    change(file)
    path.write_text(yaml.dump(file, Dumper=yaml.CSafeDumper, allow_unicode=True), encoding="utf-8")
