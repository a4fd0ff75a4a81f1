"""`mnema migrate` with MNEMA_CLUSTERS: databases become the clusters of one installation."""

from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
import yaml
from typer.testing import CliRunner

from app.cli.main import app
from app.config.clusters import load_clusters
from app.domain.errors import ConfigError
from tests.background import until
from tests.clusters.servers import ClusterServers
from tests.own_postgres import connected
from tests.pages.blocks import BLOCKS

TENANT = "SELECT name FROM tenants WHERE id = $1"
IDENTITY = "SELECT name, number, keeps_directory FROM cluster"


async def test_the_directory_reaches_the_other_cluster_and_is_written_in_one(two_clusters: ClusterServers) -> None:
    tenant = uuid4()
    async with (
        connected(two_clusters.superusers["first"]) as first,
        connected(two_clusters.superusers["second"]) as second,
    ):
        assert [tuple(await sql.fetchrow(IDENTITY)) for sql in (first, second)] == [
            ("first", 1, True),
            ("second", 2, False),
        ]
        statement = "INSERT INTO tenants (id, name) VALUES ($1, $2)"
        await first.execute(statement, tenant, str(tenant))

        async def is_copied() -> bool:
            return bool(await second.fetchval(TENANT, tenant))

        await until(is_copied, "the copy of the directory")
        with pytest.raises(asyncpg.PostgresError, match="written in another cluster"):
            await second.execute(statement, uuid4(), "other")
        ranges = [await sql.fetchval("SELECT last_value >> 40 FROM users_user_pk_seq") for sql in (first, second)]
    assert ranges == [1, 2]


def test_to_migrate_again_changes_nothing(two_clusters: ClusterServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMA_CLUSTERS", str(two_clusters.file))
    result = CliRunner().invoke(app, ["migrate"])
    assert result.exit_code == 0, result.output
    assert [line.split(":")[0] for line in result.output.splitlines()] == ["first", "second"]


def test_commands_name_a_cluster_that_does_not_answer(
    two_clusters: ClusterServers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The others are migrated all the same."""
    clusters = yaml.safe_load(two_clusters.file.read_text())
    for field in ("admin_database_url", "database_url", "superuser_database_url"):
        clusters["second"][field] = f"postgresql://{field}:secret@127.0.0.1:1/mnema"
    file = tmp_path / "away.yaml"
    file.write_text(yaml.safe_dump(clusters, sort_keys=False))
    monkeypatch.setenv("MNEMA_CLUSTERS", str(file))
    for words in (["migrate"], ["cluster", "drain", "second"]):
        result = CliRunner().invoke(app, words)
        told = " ".join(result.output.split())
        assert (result.exit_code, "secret" in told) == (1, False), told
        assert "error database_unavailable: the cluster second does not answer: " in told
        assert ("migrated, but not joined: first;" in told) == (words == ["migrate"])
    for words in (["cluster", "list"], ["tenant", "list"], ["tenant", "create", f"t-{uuid4()}", "--region", "eu"]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output


def test_a_drained_cluster_takes_no_new_tenants(two_clusters: ClusterServers, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*words: str) -> str:
        result = CliRunner().invoke(app, words)
        return result.output if result.exit_code == 0 else f"exit {result.exit_code}"

    monkeypatch.setenv("MNEMA_CLUSTERS", str(two_clusters.file))
    assert "second takes no new tenants" in run("cluster", "drain", "second")
    assert "draining" in run("cluster", "list")
    assert run("tenant", "create", f"t-{uuid4()}", "--region", "us") == "exit 1"
    assert "again" in run("cluster", "drain", "second", "--undo")
    assert "draining" not in run("cluster", "list")
    assert run("tenant", "create", f"t-{uuid4()}", "--region", "us") != "exit 1"
    assert run("cluster", "drain", "third") == "exit 1"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[]", "a name for each cluster"),
        ("First: {database_url: x}", "begins with a letter"),
        ("first: {database_url: x, databse: y}", r"first\.databse: Extra inputs"),
        ("first: {}", r"first\.database_url: Field required"),
        ("first: {database_url_file: /nowhere}", "database_url_file"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, wrong: str) -> None:
    file = tmp_path / "clusters.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=wrong):
        load_clusters(file)


def test_a_value_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("postgresql://of/a/file\n")
    file = tmp_path / "clusters.yaml"
    file.write_text(f"b: {{database_url_file: {tmp_path}/url}}\na: {{database_url: x, region: eu}}")
    clusters = load_clusters(file)
    assert list(clusters) == ["b", "a"]
    assert clusters["b"].database_url.get_secret_value() == "postgresql://of/a/file"
    assert clusters["a"].region == "eu"


def test_the_file_of_the_page_is_right(tmp_path: Path) -> None:
    [block] = [block for block in BLOCKS if str(block) == "docs/scaling.md 1"]
    file = tmp_path / "clusters.yaml"
    file.write_text(block.text)
    clusters = load_clusters(file)
    assert {name: urls.region for name, urls in clusters.items()} == {"eu1": "eu", "us1": "us"}
    assert all(urls.mover_database_url.get_secret_value() for urls in clusters.values())
