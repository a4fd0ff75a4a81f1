"""Building a chat model from settings."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from app.bootstrap.adapters import chat_model_settings
from app.config.settings import Settings
from app.domain.errors import ConfigError
from app.prompts.same_fact import same_fact_prompt
from app.providers.chat_models import ChatModelSettings, build_chat_model
from tests.fake_llm import fake_llm

KEY = "sk-a-secret-that-must-not-leak"
HOME = Path("unused")


def test_the_default_is_none() -> None:
    assert not build_chat_model(chat_model_settings(Settings(home=HOME))).is_available


async def test_an_endpoint() -> None:
    async with fake_llm() as server:
        given = Settings(
            home=HOME, llm="openai", llm_base_url=f"{server.base_url}/", llm_model="a-model", llm_api_key=KEY
        )
        built = build_chat_model(chat_model_settings(given))
        assert (built.is_available, built.name) == (True, "a-model")
        await built.generate_reply(same_fact_prompt([("The user sails.", "The user rows.")]))
        await built.close()
        assert server.requests[0]["model"] == "a-model"
        assert server.keys == {f"Bearer {KEY}"}
        assert KEY not in repr(given) + repr(chat_model_settings(given))


async def test_a_key_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("first\n")
    async with fake_llm() as server:
        given = Settings(
            home=HOME, llm="openai", llm_base_url=server.base_url, llm_model="a-model", llm_api_key_file=str(file)
        )
        built = build_chat_model(chat_model_settings(given))
        for key in ("first", "the second"):
            file.write_text(key)
            await built.generate_reply(same_fact_prompt([("The user sails.", "The user rows.")]))
        await built.close()
        assert server.keys == {"Bearer first", "Bearer the second"}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (ChatModelSettings(kind="openai", model="m"), "BASE_URL"),
        (ChatModelSettings(kind="openai", model="m", base_url="vllm:8000"), "BASE_URL"),
        (ChatModelSettings(kind="openai", model="m", base_url="http://vllm:port"), "BASE_URL"),
        (ChatModelSettings(kind="openai", base_url="http://vllm"), "MODEL"),
        (ChatModelSettings(kind="openai", model="m", base_url="http://vllm", api_key="a\nkey"), "API_KEY"),
        (ChatModelSettings(kind="openai", model="m", base_url="http://vllm", api_key="schlüssel"), "API_KEY"),
    ],
)
def test_a_configuration_that_cannot_work(given: ChatModelSettings, named: str) -> None:
    with pytest.raises(ConfigError, match=f"MNEMA_LLM_{named}: must be"):
        build_chat_model(given)


def test_the_variables_that_many_programs_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_BASE_URL", "http://one/v1")
    plain = Settings(home=HOME)
    assert (plain.llm, plain.llm_base_url, plain.llm_model) == ("openai", "http://one/v1", "default")
    monkeypatch.setenv("LLM_MODEL", "a-model")
    monkeypatch.setenv("LLM_API_KEY", KEY)
    named = Settings(home=HOME)
    assert (named.llm_model, named.llm_api_key.get_secret_value()) == ("a-model", KEY)
    assert KEY not in repr(named)
    monkeypatch.setenv("MNEMA_LLM_BASE_URL", "http://two/v1")
    assert Settings(home=HOME).llm_base_url == "http://two/v1"
    monkeypatch.setenv("MNEMA_LLM", "none")
    assert Settings(home=HOME).llm == "none"


@pytest.mark.long
async def test_without_a_model_nothing_heavy_is_loaded() -> None:
    script = """
import sys
from app.bootstrap import build_application
from app.providers.chat_models import ChatModelSettings, build_chat_model
build_chat_model(ChatModelSettings())
assert not {"pydantic_ai", "openai", "tiktoken"} & sys.modules.keys()
"""
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
