"""Addresses of chat endpoints: what is refused however it is written, and what a name may not hide."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from app.domain.chat.upstream import ANTHROPIC, OPENAI, Upstream
from app.domain.errors import ConfigError, UpstreamNotAllowed
from app.providers.upstreams import UpstreamSettings, installation_upstreams, resolving
from app.providers.upstreams.addresses import AddressRules, classify_address, parse_endpoint
from app.providers.upstreams.resolving import CachedResolver
from tests.conformance.upstreams.conftest import MakeClient, post
from tests.upstream_server import OK, raw_endpoint, read_request

NEVER = (
    *("169.254.169.254", "169.254.0.1", "224.0.0.1", "0.0.0.0", "0.1.2.3", "255.255.255.255", "240.0.0.1"),
    *("100.100.100.200", "192.0.0.192", "168.63.129.16", "::", "fe80::1", "fe80::1%eth0", "ff02::1", "fd00:ec2::254"),
    *("fd20:ce::254", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "::7f00:1", "2002:7f00:1::"),
    *("2001:0:4136:e378:8000:63bf:3fff:fdd2", "64:ff9b:1::1", "no address"),
)
PRIVATE = (
    *("127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "192.0.2.1", "198.18.0.1"),
    *("::1", "fc00::1", "fd12::1", "fec0::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2001:db8::1"),
)
PUBLIC = ("1.1.1.1", "104.18.6.192", "2606:4700::6812:6c0", "::ffff:1.1.1.1", "64:ff9b::101:101")


@pytest.mark.parametrize(
    ("kind", "addresses"),
    [("never", NEVER), ("private", PRIVATE), ("public", PUBLIC)],
    ids=lambda value: str(value)[:8],
)
def test_each_address_has_its_kind(kind: str, addresses: tuple[str, ...]) -> None:
    assert {address: classify_address(address) for address in addresses} == dict.fromkeys(addresses, kind)


@pytest.mark.parametrize("addresses", [("10.0.0.1",), ("1.1.1.1", "10.0.0.1"), ("::1", "1.1.1.1")])
def test_every_address_of_a_name_must_be_allowed(addresses: Sequence[str]) -> None:
    with pytest.raises(UpstreamNotAllowed, match="private") as caught:
        AddressRules().check_addresses(addresses, trusted=False)
    assert "10.0.0.1" not in str(caught.value)
    AddressRules(private=True).check_addresses(addresses, trusted=False)
    AddressRules().check_addresses(addresses, trusted=True)


@pytest.mark.parametrize("address", NEVER)
def test_some_addresses_are_refused_whoever_asks(address: str) -> None:
    for rules, trusted in ((AddressRules(private=True), False), (AddressRules(), True)):
        with pytest.raises(UpstreamNotAllowed, match="link-local"):
            rules.check_addresses(["1.1.1.1", address], trusted)


@pytest.mark.parametrize(
    "spelling",
    [
        *("127.0.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "localhost", "LOCALHOST.", "[::1]"),
        *("[::ffff:127.0.0.1]", "①②⑦.⓪.⓪.①", "127。0。0。1"),
    ],
)
async def test_no_spelling_of_loopback_is_called(make_client: MakeClient, spelling: str) -> None:
    """The operating system itself reads the spelling, and each of its answers is checked."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()

    called = asyncio.Event()
    async with raw_endpoint(answer) as port:
        client = make_client(AddressRules())
        upstream = Upstream(f"http://{spelling}:{port}/v1")
        for call in (post(client, upstream), client.check_address(upstream)):
            with pytest.raises(UpstreamNotAllowed):
                await call
    assert not called.is_set()


async def test_the_checked_address_is_the_one_called(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that answers differently the second time (DNS rebinding) changes nothing within a call."""
    hosts: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await read_request(reader)
        hosts.append(next(line for line in head.split(b"\r\n") if line.lower().startswith(b"host:")))
        writer.write(OK + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()

    answers = iter([["127.0.0.1"], ["169.254.169.254"], ["10.0.0.1", "127.0.0.1"]])

    async def resolve(host: str) -> list[str]:
        assert host == "rebinding.example"
        return next(answers)

    monkeypatch.setattr(resolving, "KEEP_S", 0.0)
    async with raw_endpoint(answer) as port:
        client = make_client(AddressRules(private=True), resolve)
        upstream = Upstream(f"http://Rebinding.example:{port}/v1")
        assert await post(client, upstream) == (200, b"{}")
        with pytest.raises(UpstreamNotAllowed):
            await post(client, upstream)
    assert hosts == [f"host: rebinding.example:{port}".encode()]


async def test_another_address_is_tried_when_the_first_takes_no_connection(make_client: MakeClient) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(OK + b"Content-Length: 2\r\n\r\n{}")
            await writer.drain()

    async def resolve(host: str) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    async with raw_endpoint(answer) as port:
        client = make_client(resolve=resolve)
        for _ in range(2):
            assert await post(client, Upstream(f"http://two.example:{port}")) == (200, b"{}")


async def test_a_name_is_looked_up_once_for_all_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    async def resolve(host: str) -> list[str]:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.01)
        if host == "down.example" and asked == 2:
            raise OSError
        return ["1.1.1.1"]

    resolver = CachedResolver(resolve)
    assert await asyncio.gather(*(resolver.find_addresses("a.example") for _ in range(9))) == [["1.1.1.1"]] * 9
    assert asked == 1
    with pytest.raises(Exception, match="resolved"):
        await resolver.find_addresses("down.example")
    assert await resolver.find_addresses("down.example") == ["1.1.1.1"]  # a failure is not kept
    monkeypatch.setattr(resolving, "MAX_NAMES", 2)
    for number in range(5):
        await resolver.find_addresses(f"{number}.example")
    assert await resolver.find_addresses("a.example") == ["1.1.1.1"]
    assert asked == 9
    assert await resolver.find_addresses("8.8.8.8") == ["8.8.8.8"]
    assert asked == 9


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("api.openai.com", True),
        ("API.openai.com", True),
        ("api.openai.com.", True),
        ("eu.example.com", True),
        ("a.b.example.com", True),
        ("example.com", False),
        ("evilexample.com", False),
        ("api.openai.com.evil.net", False),
        ("127.0.0.1", False),
    ],
)
def test_only_hosts_of_the_list_are_allowed(host: str, allowed: bool) -> None:
    rules = AddressRules(("api.openai.com", "*.example.com"))
    endpoint = parse_endpoint(f"https://{host}/v1")
    if allowed:
        rules.check_host(endpoint.host)
        return
    with pytest.raises(UpstreamNotAllowed, match=r"allowed hosts: api\.openai\.com, \*\.example\.com"):
        rules.check_host(endpoint.host)


async def test_the_operators_own_endpoint_needs_no_place_on_the_list(make_client: MakeClient) -> None:
    client = make_client(AddressRules(("api.openai.com",)))
    await client.check_address(Upstream("http://127.0.0.1:1/v1", trusted=True))
    with pytest.raises(UpstreamNotAllowed, match="allowed hosts"):
        await client.check_address(Upstream("http://127.0.0.1:1/v1"))


WRONG_URLS = (
    *("", "api.openai.com/v1", "ftp://host/v1", "http://", "http:///v1", "http://host:0/v1", "http://host:99999/v1"),
    *(
        "http://me:pw@host/v1",
        "http://host/v1?key=1",
        "http://host/v1#x",
        "http://ho st/v1",
        "http://[fe80::1%25eth0]/v1",
    ),
    *("http://[::1/v1", "http://host/\n", "file:///etc/passwd", "http://host/" + "x" * 2048, "http://\udc80/"),
)


@pytest.mark.parametrize("url", WRONG_URLS)
def test_a_wrong_base_url_is_refused(url: str) -> None:
    with pytest.raises(UpstreamNotAllowed, match="must be the http:// or https:// URL"):
        parse_endpoint(url)
    if url:
        with pytest.raises(ConfigError, match="MNEMA_CHAT_UPSTREAM_URL: must be") as caught:
            installation_upstreams(UpstreamSettings(url=url, key="sk-1"))
        assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "host", "made"),
    [
        ("https://api.openai.com/v1/", "api.openai.com", "https://9.9.9.9:443/v1/models"),
        ("http://Host:8080", "host:8080", "http://9.9.9.9:8080/models"),
        ("http://[2606::1]/a%2Fb", "[2606::1]", "http://9.9.9.9:80/a%2Fb/models"),
        ("https://bücher.example./v1", "xn--bcher-kva.example", "https://9.9.9.9:443/v1/models"),
    ],
)
def test_the_parts_of_a_base_url(url: str, host: str, made: str) -> None:
    endpoint = parse_endpoint(url)
    assert endpoint.host_header == host
    built = endpoint.make_url("9.9.9.9", "/models")
    assert f"{built.scheme}://{built.host}:{built.port or {'http': 80, 'https': 443}[built.scheme]}" in made
    assert made.endswith(built.raw_path.decode())


def test_the_installations_endpoint() -> None:
    assert installation_upstreams(UpstreamSettings()) == {}
    upstream = installation_upstreams(UpstreamSettings(url="http://vllm:8000/v1", key="sk-1"))
    assert upstream == {OPENAI: Upstream("http://vllm:8000/v1", "sk-1", trusted=True)}
    both = replace(UpstreamSettings(url="http://vllm:8000/v1"), anthropic_url="http://vllm/v1", anthropic_key="sk-2")
    assert installation_upstreams(both)[ANTHROPIC] == Upstream(
        "http://vllm/v1", "sk-2", trusted=True, dialect=ANTHROPIC
    )
    with pytest.raises(ConfigError, match="MNEMA_CHAT_ANTHROPIC_URL: must be set"):
        installation_upstreams(UpstreamSettings(anthropic_key="sk-1"))
    with pytest.raises(ConfigError, match="MNEMA_CHAT_UPSTREAM_URL: must be set"):
        installation_upstreams(UpstreamSettings(key="sk-1"))
    with pytest.raises(ConfigError, match="MNEMA_CHAT_UPSTREAM_KEY: must be printable") as caught:
        installation_upstreams(UpstreamSettings(url="http://vllm:8000/v1", key="sk-\n"))
    assert "sk-" not in str(caught.value)
    assert "sk-1" not in repr(UpstreamSettings(key="sk-1"))


def test_the_key_file_of_an_endpoint_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-first\n")
    url = "http://vllm:8000/v1"
    for dialect, given in (
        (OPENAI, UpstreamSettings(url=url, key="unused", key_file=str(file))),
        (ANTHROPIC, UpstreamSettings(anthropic_url=url, anthropic_key_file=str(file))),
    ):
        file.write_text("sk-first\n")
        installed = installation_upstreams(given)
        assert (list(installed), installed[dialect].api_key) == ([dialect], "sk-first")
        file.write_text("sk-the-second")
        assert installed[dialect].api_key == "sk-the-second"
        file.unlink()
        assert installed[dialect].api_key == "sk-the-second"
    with pytest.raises(ConfigError, match="MNEMA_CHAT_UPSTREAM_KEY_FILE: cannot read"):
        installation_upstreams(UpstreamSettings(url=url, key_file=str(file)))
    with pytest.raises(ConfigError, match="MNEMA_CHAT_UPSTREAM_URL: must be set, since MNEMA_CHAT_UPSTREAM_KEY_FILE"):
        installation_upstreams(UpstreamSettings(key_file=str(file)))
