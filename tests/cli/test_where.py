"""Commands that read more than lists of memories take filters: `--where`."""

import json
from pathlib import Path
from typing import Any

from tests.api.calls import remember
from tests.api.changes import told_since
from tests.api.facts.calls import tell
from tests.cli.in_process import mnema
from tests.factories import Caller

WHERE = '{"tags": {"contains": "work"}}'


async def test_exports_changes_facts_and_webhooks_take_a_filter(server: str, caller: Caller, tmp_path: Path) -> None:
    env: dict[str, Any] = {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path}
    async with caller.client(server) as http:
        written = await remember(http, "Maya fixes the roof.", tags=["work"])
        await remember(http, "Tea at noon.")
        await tell(http)
        await told_since(http, "start", 2)
    file = tmp_path / "maya.jsonl"
    await mnema("export", "--user", "maya", "--to", str(file), "--where", WHERE, **env)
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [record["id"] for record in records if record["kind"] == "memory"] == [written["id"]]
    changes = await mnema("changes", "--after", "start", "--where", WHERE, "--json", **env)
    assert {json.loads(line)["memory_id"] for line in changes.stdout.splitlines()} == {written["id"]}
    facts = await mnema("facts", "list", "--user", "maya", "--where", '{"text": "blue"}', "--json", **env)
    assert [fact["value"] for fact in json.loads(facts.stdout)["items"]] == ["blue"]
    webhook = await mnema("webhook", "add", "http://127.0.0.1:1", "--where", WHERE, "--json", **env)
    assert json.loads(webhook.stdout)["where"] == json.loads(WHERE)
    wrong = await mnema("changes", "--where", '{"importanse": 3}', **env)
    assert (wrong.exit_code, "did you mean 'importance'?" in wrong.stderr) == (1, True)
