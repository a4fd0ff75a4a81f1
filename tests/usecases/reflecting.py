"""A scripted chat model behind applications, and the stored records of its calls."""

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from app.bootstrap import Application
from app.bootstrap.reflection import build_model_gateway
from app.config.settings import Settings
from app.config.yaml_files import CONFIG_DIR
from app.domain.reflection.model_usage import LlmPolicy
from app.providers.chat_models import NullChatModel
from app.providers.chat_models.model_endpoint import ModelEndpoint
from app.providers.chat_models.openai import OpenAIModel
from app.storage.journal import Journal
from app.storage.reflection.model_calls import ModelCallStorage
from app.usecases.reflection.model_gateway import ModelGateway
from tests.factories import Clock
from tests.fake_llm import FakeLlm
from tests.storage.building import SECRET, SPACE


def with_model(settings: Settings, llm: FakeLlm, timeout_s: float = 30.0) -> Settings:
    """Return settings whose chat model is the scripted one."""
    given = {"llm": "openai", "llm_base_url": llm.base_url, "llm_model": "scripted", "llm_timeout_s": timeout_s}
    return settings.model_copy(update=given)


def without_capture(settings: Settings, directory: Path) -> Settings:
    """Return settings under which a turn leaves only what the model reads. `directory` gets the configuration."""
    copied = directory / "no-capture"
    shutil.copytree(settings.config_dir or CONFIG_DIR, copied)
    table = copied / "capture.yaml"
    table.write_text(re.sub(r"^per_turn: \d+", "per_turn: 0", table.read_text(), flags=re.MULTILINE))
    policies = copied / "policies.yaml"
    policies.write_text(policies.read_text().replace("  supersede: true ", "  supersede: false"))
    return settings.model_copy(update={"config_dir": copied})


@asynccontextmanager
async def asker(
    app: Application, llm: FakeLlm, clock: Clock, daily_tokens: int = 100_000, timeout_s: float = 30.0
) -> AsyncIterator[ModelGateway]:
    """Yield a gateway to the scripted model with this daily budget."""
    model = OpenAIModel(ModelEndpoint(base_url=llm.base_url), "scripted", timeout_s)
    journal = Journal(app.parts.uow, SPACE, SECRET)
    yield ModelGateway(model, ModelCallStorage(app.parts.uow), journal, LlmPolicy(daily_tokens), clock)
    await model.close()


def unmeasured(app: Application, clock: Clock) -> ModelGateway:
    """Return a gateway without a model."""
    return build_model_gateway(
        app.parts.uow, Journal(app.parts.uow, SPACE, SECRET), NullChatModel(), app.parts.policies.defaults, clock
    )


async def calls(sql: asyncpg.Connection) -> list[tuple[Any, ...]]:
    """Return prompt, version, attempt, first_pass_ok, status and error of every call, oldest first."""
    rows = await sql.fetch(
        "SELECT prompt, version, attempt, first_pass_ok, status, error FROM llm_calls ORDER BY ts, attempt, id"
    )
    return [tuple(row) for row in rows]


async def budget(sql: asyncpg.Connection) -> int:
    """Return the tokens spent, over all days and tenants."""
    return int(await sql.fetchval("SELECT coalesce(sum(tokens), 0) FROM llm_budget"))
