"""One server for all tests of the pages: with an operator key, a chat model and a chat upstream, all scripted."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.bootstrap import Application, Doubles
from app.ports import Embedder
from tests.conftest import Installation, cloned, settings_of
from tests.factories import Caller, Clock, replica
from tests.fake_llm import fake_llm
from tests.pages.reader import OPERATOR_KEY, Reader
from tests.scripted_upstream import scripted_upstream
from tests.usecases.reflecting import with_model


@pytest.fixture(scope="session")
async def shared_installation(
    superuser_url: str, local_model: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Installation]:
    """Run one database, application and server for the pages of this process."""
    home = tmp_path_factory.mktemp("pages")
    (home / "operator.key").write_text(OPERATOR_KEY)
    async with cloned(superuser_url) as database, scripted_upstream() as upstream, fake_llm() as llm:
        upstream.takes_anything, upstream.rule = True, lambda _body: "Fine."
        given = {"chat_upstream_url": upstream.base_url, "operator_key_file": str(home / "operator.key")}
        settings = with_model(settings_of(database, home), llm).model_copy(update=given)
        async with replica(settings, Doubles(embedder=local_model, clock=Clock())) as (url, app):
            yield Installation(app, database, url)


@pytest.fixture
async def reader(server: str, app: Application, caller: Caller, tmp_path: Path) -> Reader:
    """Return a reader with a fresh tenant and an empty folder."""
    return Reader(server, app, caller, tmp_path)
