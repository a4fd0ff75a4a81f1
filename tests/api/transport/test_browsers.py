"""Headers for browsers: the pages that may call, the content that a page may load, and HSTS."""

import base64
import hashlib
import re

import httpx
import pytest
from pydantic import ValidationError

from app.api.main import create_app
from app.bootstrap import Doubles
from app.config.settings import Settings
from app.ports import Embedder
from tests.api.calls import refused
from tests.factories import Caller, Clock, serve

PAGE = "https://app.example.com"
ASKED = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}


def cors(response: httpx.Response) -> dict[str, str]:
    """Return the headers that admit a page."""
    return {name: value for name, value in response.headers.items() if name.startswith("access-control-allow")}


async def test_no_page_may_call_unless_it_is_named(http: httpx.AsyncClient) -> None:
    for response in (
        await http.options("/memory", headers={"Origin": PAGE, **ASKED}),
        await http.get("/memory", headers={"Origin": PAGE}),
    ):
        assert cors(response) == {}
        assert response.status_code in (200, 405)


@pytest.mark.long
async def test_a_named_page_may_call_and_reads_refusals_too(
    settings: Settings, embedder: Embedder, clock: Clock, caller: Caller
) -> None:
    named = settings.model_copy(update={"cors_origins": [PAGE]})
    async with serve(named, Doubles(embedder=embedder, clock=clock)) as url, caller.client(url) as client:
        preflight = await client.options("/memory", headers={"Origin": PAGE, **ASKED})
        assert preflight.status_code == 200
        assert preflight.headers["Access-Control-Allow-Origin"] == PAGE
        assert {"Authorization", "Idempotency-Key"} <= set(
            preflight.headers["Access-Control-Allow-Headers"].split(", ")
        )
        for response in (
            await client.get("/memory", headers={"Origin": PAGE}),
            await client.get("/nothing", headers={"Origin": PAGE}),
            await client.post("/memory", content=b"x" * (1 << 21), headers={"Origin": PAGE}),
        ):
            assert cors(response) == {"access-control-allow-origin": PAGE}, "no credentials"
            assert "Origin" in response.headers["Vary"]
            assert "Retry-After" in response.headers["Access-Control-Expose-Headers"]
        for stranger in ("https://app.example.com.evil.org", "http://app.example.com", "null"):
            assert "access-control-allow-origin" not in cors(await client.get("/memory", headers={"Origin": stranger}))
            assert (await client.options("/memory", headers={"Origin": stranger, **ASKED})).status_code == 400


@pytest.mark.parametrize(
    "origin",
    ["app.example.com", "https://app.example.com/", "https://*.example.com", "ftp://a", "https://a b", "null", ""],
)
def test_an_origin_that_no_page_has_stops_the_boot(origin: str) -> None:
    with pytest.raises(ValidationError, match="cors_origins"):
        Settings(cors_origins=[origin])


@pytest.mark.parametrize("origin", [PAGE, "http://localhost:3000", "http://[::1]:3000", "*"])
def test_an_origin_that_a_page_may_have(origin: str) -> None:
    assert Settings(cors_origins=[origin]).cors_origins == [origin]


@pytest.mark.long
async def test_https_is_kept_only_where_it_was_used(settings: Settings, embedder: Embedder, clock: Clock) -> None:
    """The server believes X-Forwarded-Proto of a proxy on this machine."""
    async with serve(settings, Doubles(embedder=embedder, clock=clock)) as url, httpx.AsyncClient(base_url=url) as c:
        for path in ("/health", "/nothing", "/docs"):
            behind = await c.get(path, headers={"X-Forwarded-Proto": "https"})
            assert behind.headers["Strict-Transport-Security"] == "max-age=31536000"
            assert "Strict-Transport-Security" not in (await c.get(path)).headers


async def test_the_docs_load_nothing_from_elsewhere_and_their_policy_lets_them_work(http: httpx.AsyncClient) -> None:
    response = await http.get("/docs")
    policy = dict(part.split(" ", 1) for part in response.headers["Content-Security-Policy"].split("; "))
    page = response.text
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert set(loaded) == {"/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "data:,"}
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy["script-src"] == f"'self' 'sha256-{digest}'"
    assert "url: '/openapi.json'" in script
    assert (policy["default-src"], policy["connect-src"], policy["frame-ancestors"]) == ("'none'", "'self'", "'none'")
    for url, kind in (("/docs/swagger-ui-bundle.js", "text/javascript"), ("/docs/swagger-ui.css", "text/css")):
        file = await http.get(url)
        assert file.headers["Content-Type"].startswith(kind)
        assert len(file.content) > 100_000
        assert file.headers["Cache-Control"].startswith("public")
    assert "SwaggerUIBundle" in (await http.get("/docs/swagger-ui-bundle.js")).text


@pytest.mark.long
async def test_the_docs_can_be_left_out(settings: Settings, embedder: Embedder, clock: Clock) -> None:
    silent = settings.model_copy(update={"docs": False})
    async with serve(silent, Doubles(embedder=embedder, clock=clock)) as url, httpx.AsyncClient(base_url=url) as client:
        for path in ("/docs", "/docs/swagger-ui.css", "/openapi.json"):
            refused(await client.get(path), 404, "no_such_route")
        refused(await client.get("/redoc"), 401, "unauthenticated")
        assert (await client.get("/health")).status_code == 200


@pytest.mark.long
def test_the_document_names_the_installed_version() -> None:
    from importlib.metadata import version

    assert create_app().openapi()["info"]["version"] == version("mnema-server")
