"""The Caddyfile of docs/operations.md before a real server. It runs only if MNEMA_TEST_CADDY names the program."""

import os
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.acceptance.processes import free_port
from tests.background import until
from tests.pages.blocks import BLOCKS
from tests.pages.reader import Reader

CADDY = os.environ.get("MNEMA_TEST_CADDY")
GLOBAL_OPTIONS = """{{
	admin off
	auto_https disable_redirects
	skip_install_trust
	storage file_system {folder}
}}
"""
"""The options that keep a Caddy of a test from the ports and files of the machine."""
pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("pages"),
    pytest.mark.skipif(CADDY is None, reason="MNEMA_TEST_CADDY names no caddy"),
]


@pytest.fixture
def proxy(reader: Reader, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a Caddy with the page's file, before the server, with an authority of its own."""
    [block] = [block for block in BLOCKS if block.language == "caddyfile"]
    address = f"localhost:{free_port()}"
    site = block.text.replace("mnema.example.com {", f"{address} {{\n\ttls internal")
    site = site.replace("127.0.0.1:8000", urlsplit(reader.url).netloc)
    (tmp_path / "Caddyfile").write_text(GLOBAL_OPTIONS.format(folder=tmp_path) + site)
    assert CADDY is not None
    with (tmp_path / "caddy.log").open("wb") as log:
        process = subprocess.Popen([CADDY, "run", "--config", tmp_path / "Caddyfile"], stdout=log, stderr=log)
    yield f"https://{address}"
    process.terminate()
    process.wait()


async def test_a_server_is_asked_by_tls(proxy: str, reader: Reader, tmp_path: Path) -> None:
    authority = tmp_path / "pki/authorities/local/root.crt"

    async def written() -> bool:
        return authority.exists()

    await until(written, "the authority's certificate")
    context = ssl.create_default_context(cafile=str(authority))

    async def status(path: str) -> int:
        async with httpx.AsyncClient(verify=context, headers=reader.caller.headers) as client:
            return (await client.get(proxy + path)).status_code

    async def serves() -> bool:
        try:
            return await status("/ready") == httpx.codes.OK
        except httpx.TransportError:
            return False

    await until(serves, "an answer through the proxy")
    assert await status("/key") == httpx.codes.OK
    assert await status("/operator/tenants") == httpx.codes.FORBIDDEN
