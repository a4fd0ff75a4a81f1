"""Rate limits of tools: the same as for routes, with an error that a model can read."""

import shutil
from pathlib import Path

import pytest
import yaml
from mcp import MCPError

from app.config.settings import Settings
from app.config.yaml_files import CONFIG_DIR
from tests.factories import Caller, body
from tests.mcp.connections import EVERY_WAY, Connect, answered, ask, refused

pytestmark = pytest.mark.usefixtures("own")

REQUESTS, MEMORIES = 12, 2


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """Return settings with low limits."""
    folder = Path(shutil.copytree(CONFIG_DIR, tmp_path / "config"))
    file = folder / "policies.yaml"
    limits = {"requests_per_minute": {"key": REQUESTS}, "memories_per_day": {"key": MEMORIES}}
    policies = yaml.safe_load(file.read_text(encoding="utf-8")) | {"limits": limits}
    file.write_text(yaml.safe_dump(policies), encoding="utf-8")
    return settings.model_copy(update={"config_dir": folder})


@pytest.fixture(params=EVERY_WAY.values(), ids=EVERY_WAY)
def connect(request: pytest.FixtureRequest) -> Connect:
    way: Connect = request.param
    return way


@pytest.mark.long
async def test_a_tool_says_that_a_limit_is_reached(connect: Connect, server: str, caller: Caller) -> None:
    async with connect(server, caller.key) as client:
        for number in range(MEMORIES):
            answered(await client.call_tool("memory_remember", body(f"Maya has {number} bees.", user_id=f"u{number}")))
        problem = refused(await client.call_tool("memory_remember", body()), "quota_exceeded")
        assert problem["status"] == 429
        assert problem["retry_after"] >= 1
        while not (result := await ask(client)).is_error:
            assert answered(result)["items"] == []
        problem = refused(result, "rate_limited")
        assert (problem["status"], problem["retry_after"] >= 1) == (429, True)
        assert problem["detail"].endswith(f"; wait {problem['retry_after']} s, then call again")
        with pytest.raises(MCPError, match="rate_limited: at most 12 requests a minute for this API key"):
            await client.list_tools()
    async with caller.client(server) as http:
        assert (await http.get("/memory")).status_code == 429, "one count for all doors"
