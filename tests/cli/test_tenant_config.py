"""`mnema tenant config`: an operator reads, changes and rolls back a tenant's rules."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.in_process import mnema

COOK = "categories:\n  custom: [{name: recipes}]\nallowlists:\n  cook: [recipes]\n"


@pytest.fixture
async def env(operator: dict[str, Any]) -> dict[str, Any]:
    """Return an operator's environment; tenant acme exists."""
    assert (await mnema("tenant", "create", "acme", **operator)).exit_code == 0
    return operator


async def done(*args: str, **env: object) -> str:
    """Return the output of a command that must succeed."""
    result = await mnema("tenant", "config", *args, **env)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.long
async def test_rules_are_put_read_compared_and_rolled_back(env: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(COOK)
    assert await done("get", "acme", **env) == "{}\n"
    tried = await done("put", "acme", str(file), "--dry-run", **env)
    assert "+  cook: [recipes]" in tried
    assert tried.endswith("version 1 would be in force\n")
    stored = await done("put", "acme", str(file), "--note", "our cook", **env)
    assert stored.splitlines()[-1].startswith("version 1 is in force, within 5 seconds")
    assert yaml.safe_load(await done("get", "acme", **env)) == yaml.safe_load(COOK)
    made = await mnema(
        "key", "create", "--tenant", "acme", "--name", "cook", "--agents", "cook", "--scopes", "query", **env
    )
    assert made.exit_code == 0, made.output
    back = await done("rollback", "acme", "0", **env)
    assert "warning: key 'cook' is bound to agent 'cook', which has no allowlist" in back
    assert back.splitlines()[-1].startswith("version 2 is in force")
    assert "-  cook: [recipes]" in await done("diff", "acme", "1", "2", **env)
    assert yaml.safe_load(await done("get", "acme", "--version", "1", **env)) == yaml.safe_load(COOK)
    listed = await done("history", "acme", **env)
    assert "our cook" in listed
    assert "rollback to version 0" in listed


async def test_wrong_rules_end_with_the_reason(env: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("allowlists: {cook: [recipe]}\n")
    refused = await mnema("tenant", "config", "put", "acme", str(file), **env)
    assert refused.exit_code == 1
    assert "allowlists.cook: unknown category 'recipe'" in " ".join(refused.output.split())
    missing = await mnema("tenant", "config", "put", "acme", str(tmp_path / "none.yaml"), **env)
    assert missing.exit_code == 1
    assert (await mnema("tenant", "config", "get", "nobody", **env)).exit_code == 1


@pytest.mark.parametrize(
    ("option", "why"),
    [
        (["--note", "one\ntwo"], "note: one line of at most 500 printable characters"),
        (["--note", "x" * 501], "note: one line of at most 500 printable characters"),
        (["--move", "recipes:goals", "--move", "recipes:tasks"], "move: 'recipes' is given twice"),
        (["--move", "recipes"], "move: use old:new, two names of categories"),
        (["--move", f"{'x' * 500}:goals"], "move: use old:new, two names of categories"),
    ],
)
async def test_notes_and_moves_are_checked_as_over_http(
    env: dict[str, Any], tmp_path: Path, option: list[str], why: str
) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("{}\n")
    refused = await mnema("tenant", "config", "put", "acme", str(file), *option, **env)
    assert refused.exit_code == 1
    assert why in " ".join(refused.output.split())
