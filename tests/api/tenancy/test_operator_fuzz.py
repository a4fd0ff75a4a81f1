"""schemathesis over the operator's routes, with the operator key."""

import json
from pathlib import Path

import httpx
import pytest

from app.config.settings import Settings
from tests.api.fuzz.running import schemathesis

KEY = "operator-0123456789abcdef0123456789abcdef"
pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """Settings of an installation with an operator key."""
    file = tmp_path / "operator.key"
    file.write_text(KEY)
    return settings.model_copy(update={"operator_key_file": str(file)})


@pytest.mark.long
async def test_every_operation_of_the_operator_does_what_the_document_says(server: str, tmp_path: Path) -> None:
    header = {"name": "Authorization", "value": f"Bearer {KEY}"}
    async with httpx.AsyncClient(base_url=server, headers={header["name"]: header["value"]}) as client:
        for name in ("acme", "globex"):
            tenant = (await client.post("/operator/tenants", json={"name": name})).json()["id"]
            created = await client.post(f"/operator/tenants/{tenant}/keys", json={"scopes": ["query"]})
            assert created.status_code == 201, created.text
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"auth": [{"name": name, "fixedHeaders": [header]} for name in ("one", "other")]}))
    for phases in ("examples,coverage,fuzzing", "stateful"):
        arguments = ("--include-path-regex", "^/operator/", "--phases", phases, "--max-examples", "10")
        code, report = await schemathesis(server, keys, *arguments)
        assert code == 0, report
    assert "Selected: 7/" in report
