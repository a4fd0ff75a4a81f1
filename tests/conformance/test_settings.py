"""The sources of settings: the environment, then a folder of files, then config/settings.yaml."""

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from app.bootstrap.adapters import upstream_settings
from app.bootstrap.database import build_replicas
from app.config.settings import AdminSettings, Settings
from app.config.startup import read_settings
from app.domain.errors import ConfigError

URL = "postgresql://mnema_app:hidden@host/mnema"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of secrets, as Docker, Swarm and Kubernetes mount one."""
    monkeypatch.setenv("MNEMA_SECRETS_DIR", str(tmp_path))
    return tmp_path


def test_a_secret_may_come_from_a_file_of_its_name(folder: Path) -> None:
    (folder / "mnema_database_url").write_text(URL + "\n")
    (folder / "MNEMA_SECRET_KEY").write_text("also by this name")
    (folder / "mnema_key_cache_s").write_text("4")
    settings = Settings()
    assert settings.database_url.get_secret_value() == URL
    assert settings.secret_key.get_secret_value() == "also by this name"
    assert settings.key_cache_s == 4
    assert "hidden" not in repr(settings)


def test_the_environment_wins_over_the_file_and_the_file_over_the_yaml(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pool_min", "pool_max", "sweep_s"):
        (folder / f"mnema_{name}").write_text("7")
    monkeypatch.setenv("MNEMA_POOL_MAX", "8")
    monkeypatch.setenv("MNEMA_SWEEP_S", "")  # Compose sets a variable that nobody gave to ""
    settings = Settings()
    assert (settings.pool_min, settings.pool_max, settings.sweep_s) == (7, 8, 7)
    assert Settings(pool_max=9).pool_max == 9


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Settings()
    for name in ("DATABASE_URL", "EMBEDDER", "EMBEDDING_DIMENSION", "POOL_MAX", "HOME", "MCP_TOOL_NAMES"):
        monkeypatch.setenv(f"MNEMA_{name}", "")
    assert Settings() == expected


def test_no_setting_keeps_a_revoked_key_for_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings(key_cache_s=4).key_cache_s == 4
    monkeypatch.setenv("MNEMA_KEY_CACHE_S", "4.1")
    with pytest.raises(ValidationError, match="key_cache_s"):
        Settings()


def test_a_linked_folder_as_kubernetes_makes_it(folder: Path) -> None:
    (folder / "..data").mkdir()
    (folder / "..data" / "mnema_database_url").write_text(URL)
    (folder / "mnema_database_url").symlink_to("..data/mnema_database_url")
    assert Settings().database_url.get_secret_value() == URL


def test_what_migrates_has_its_passwords_from_the_same_places(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mnema_admin_password").write_text("one")
    monkeypatch.setenv("MNEMA_APP_PASSWORD", "two")
    assert AdminSettings().role_passwords() == {"mnema_admin": "one", "mnema_app": "two"}
    (folder / "mnema_backup_password").write_text("three")
    assert AdminSettings().role_passwords() == {"mnema_admin": "one", "mnema_app": "two", "mnema_backup": "three"}
    assert not {"one", "two", "three"} & set(repr(AdminSettings()).replace("'", " ").split())


def test_the_settings_of_chat_endpoints(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mnema_chat_upstream_key").write_text("sk-hidden")
    monkeypatch.setenv("MNEMA_CHAT_UPSTREAM_HOSTS", '["api.openai.com", "*.example.com", "10.0.0.1", "fd00::1"]')
    monkeypatch.setenv("MNEMA_CHAT_IDLE_TIMEOUT_S", "7")
    share = upstream_settings(Settings())
    assert share.hosts == ("api.openai.com", "*.example.com", "10.0.0.1", "fd00::1")
    assert (share.key, share.private, share.bounds.idle_timeout_s) == ("sk-hidden", False, 7)
    assert "hidden" not in repr(Settings()) + repr(share)
    for wrong in ("https://api.openai.com", "*", "api.*.com", "a/b", "Host:80 "):
        monkeypatch.setenv("MNEMA_CHAT_UPSTREAM_HOSTS", f'["{wrong}"]')
        with pytest.raises(ValidationError, match="chat_upstream_hosts"):
            Settings()


@pytest.mark.parametrize(
    ("name", "value", "shape"),
    [
        ("MNEMA_LLM_HEADERS", "X-Team: secret", "an object"),
        ("MNEMA_LLM_EXTRA_BODY", "{'a': 'secret'}", "an object"),
        ("MNEMA_SOURCE_ROOTS", "/secret", "a list"),
        ("MNEMA_CORS_ORIGINS", "[secret", "a list"),
    ],
)
def test_a_setting_that_is_no_json_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, shape: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"^{name}: is no JSON; it must be {shape}, such as") as refused:
        read_settings()
    assert "secret" not in str(refused.value)
    monkeypatch.delenv(name)
    (folder / name.lower()).write_text(value)
    with pytest.raises(ConfigError, match=f"^{name}: is no JSON"):
        read_settings()


def test_the_former_secret_is_the_setting_or_the_file_of_an_embedded_installation(tmp_path: Path) -> None:
    new, old = SecretStr("n" * 32), SecretStr("o" * 32)
    assert Settings(secret_key=new).former_secret() is None
    assert Settings(secret_key=new, former_secret_key=old).former_secret() == b"o" * 32
    made = Settings(home=tmp_path, embedded=True).erasure_secret()
    assert Settings(home=tmp_path, embedded=True).former_secret() is None
    assert Settings(home=tmp_path, embedded=True, secret_key=new).former_secret() == made
    assert Settings(home=tmp_path, secret_key=new).former_secret() is None
    with pytest.raises(ConfigError, match="MNEMA_FORMER_SECRET_KEY is too short"):
        Settings(former_secret_key=SecretStr("short")).former_secret()


def test_allowed_folders_are_absolute_and_hold_documents(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().source_roots == []
    monkeypatch.setenv("MNEMA_SOURCE_ROOTS", '["/sources/{tenant}", "/srv/documents/"]')
    assert Settings().source_roots == ["/sources/{tenant}", "/srv/documents/"]
    for wrong in (
        "",
        "/",
        "//",
        "docs",
        "~/docs",
        "/a/../b",
        "/a/./b",
        "/a//b",
        "/proc",
        "/proc/1",
        "/sys/",
        "/dev/shm",
    ):
        monkeypatch.setenv("MNEMA_SOURCE_ROOTS", f'["{wrong}"]')
        with pytest.raises(ValidationError, match="source_roots"):
            Settings()


@pytest.mark.parametrize(
    "urls",
    ["replica.example", "postgresql://a/mnema,b", "postgresql:///mnema", "http://a/mnema", "postgresql://u:x℀@a/b"],
)
def test_read_database_urls_are_checked_and_not_repeated(urls: str) -> None:
    with pytest.raises(ConfigError, match="MNEMA_READ_DATABASE_URL") as refused:
        build_replicas(Settings(read_database_url=SecretStr(urls)))
    assert urls not in str(refused.value)


def test_each_read_database_url_is_a_replica() -> None:
    urls = " postgresql://a/mnema , postgres://b/mnema,"
    assert [member.name for member in build_replicas(Settings(read_database_url=SecretStr(urls))).members] == [
        "replica 1",
        "replica 2",
    ]
    assert build_replicas(Settings()).members == ()
