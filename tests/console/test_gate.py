"""The gate: headers, sizes, methods, websockets, and one person's pages apart from another's."""

import asyncio
import json
import logging
import re
from typing import Any

import pytest
from mnema_client import AsyncMnema
from nicegui import Client, ui
from nicegui.testing import User
from starlette.datastructures import Headers

from app.bootstrap import Application
from console.gate import is_local_page, read_cookie
from console.sockets import EndingReceiver
from tests.console.people import ORIGIN, People, sees
from tests.factories import Caller, make_caller

CLIENT = re.compile(r"'client_id': '([0-9a-f-]+)'")
SOCKET = "/console/_nicegui_ws/socket.io/"


async def connect_socket(people: People, client_id: str, *, cookie: str = "", origin: str = ORIGIN) -> list[str]:
    """Open a websocket as a browser does; return what the server sends within a moment."""
    query = f"EIO=4&transport=websocket&client_id={client_id}&implicit_handshake=true&tab_id=t&document_id=d"
    headers = [(b"host", b"console.test"), (b"origin", origin.encode()), (b"cookie", cookie.encode())]
    headers += [(b"connection", b"upgrade"), (b"upgrade", b"websocket")]
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": SOCKET,
        "raw_path": SOCKET.encode(),
        "root_path": "",
        "scheme": "ws",
        "query_string": (query + "&next_message_id=0").encode(),
        "headers": headers,
        "subprotocols": [],
        "client": ("127.0.0.1", 1),
        "server": ("console.test", 80),
        "asgi": {"version": "3.0"},
    }
    incoming.put_nowait({"type": "websocket.connect"})
    incoming.put_nowait({"type": "websocket.receive", "text": "40"})
    task = asyncio.create_task(people.app(scope, incoming.get, send))  # type: ignore[arg-type]
    await asyncio.sleep(0.5)
    incoming.put_nowait({"type": "websocket.disconnect", "code": 1000})
    await asyncio.wait_for(task, 30)
    return [str(message.get("text", message["type"])) for message in sent]


def is_connected(answers: list[str]) -> bool:
    """Tell whether socket.io accepted the connection."""
    return any(answer.startswith("40") for answer in answers)


async def page_of(user: User) -> tuple[str, str]:
    """Return the client id of a page that is open, and the cookie of its session."""
    answer = await user.http_client.get("/")
    found = CLIENT.search(answer.text)
    assert found
    return found[1], "; ".join(f"{name}={value}" for name, value in user.http_client.cookies.items())


@pytest.mark.long
async def test_only_the_session_of_a_page_opens_its_websocket(app: Application, people: People, person: User) -> None:
    other = await people.sign_in((await make_caller(app)).key)
    client_id, cookie = await page_of(person)
    _, other_cookie = await page_of(other)
    assert is_connected(await connect_socket(people, client_id, cookie=cookie))
    client_id, cookie = await page_of(person)
    assert not is_connected(await connect_socket(people, client_id, cookie=other_cookie))
    assert not is_connected(await connect_socket(people, client_id))
    assert is_connected(await connect_socket(people, client_id, cookie=cookie))


async def test_only_the_session_of_a_page_uploads_to_it(app: Application, people: People, person: User) -> None:
    other = await people.sign_in((await make_caller(app)).key)
    client_id, _cookie = await page_of(person)
    address = f"/_nicegui/client/{client_id}/upload/1"
    for browser in (other.http_client, people.open_browser()):
        assert (await browser.post(address, content=b"x")).status_code == 403
    assert (await person.http_client.post(address, content=b"x")).status_code == 404  # the page has no such element


@pytest.mark.parametrize("origin", ["http://evil.test", "https://console.test", "null", ""])
async def test_a_websocket_of_another_site_is_refused(people: People, person: User, origin: str) -> None:
    client_id, cookie = await page_of(person)
    assert await connect_socket(people, client_id, cookie=cookie, origin=origin) == ["websocket.close"]


async def test_a_page_waits_for_a_phone_that_slept(person: User) -> None:
    client_id, _cookie = await page_of(person)
    assert Client.instances[client_id].page.resolve_reconnect_timeout() >= 60


async def test_polling_is_not_served(person: User) -> None:
    answer = await person.http_client.get("/_nicegui_ws/socket.io/?EIO=4&transport=polling")
    assert answer.status_code == 400


async def test_a_page_has_a_strict_policy_and_its_scripts_a_nonce(person: User) -> None:
    answer = await person.http_client.get("/")
    policy = answer.headers["content-security-policy"]
    directives = {part.split()[0]: part.split()[1:] for part in policy.split(";")}
    nonce = directives["script-src"][1].strip("'").removeprefix("nonce-")
    assert directives["script-src"] == ["'self'", f"'nonce-{nonce}'", "'unsafe-eval'"]
    assert directives["default-src"] == directives["frame-ancestors"] == directives["base-uri"] == ["'none'"]
    assert directives["connect-src"] == directives["font-src"] == directives["form-action"] == ["'self'"]
    inline = re.findall(r"<script(?![^>]*\bsrc=)[^>]*>", answer.text)
    assert inline
    assert all(f'nonce="{nonce}"' in tag for tag in inline)
    assert nonce not in (await person.http_client.get("/")).headers["content-security-policy"]
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", answer.text), "an asset from elsewhere"


async def test_every_answer_has_the_security_headers(people: People, person: User) -> None:
    library = re.findall(r'src="/console(/_nicegui/[^"]+)"', (await person.http_client.get("/")).text)[0]
    for path in ("/", "/sign-in", "/nothing", "/health", "/static/console.css", library):
        answer = await person.http_client.get(path)
        assert answer.headers["x-content-type-options"] == "nosniff", path
        assert answer.headers["x-frame-options"] == "DENY", path
        assert answer.headers["referrer-policy"] == "same-origin", path
        assert "default-src 'none'" in answer.headers["content-security-policy"], path
    form = (await people.open_browser().get("/sign-in")).headers["content-security-policy"]
    assert "script" not in form


async def test_libraries_are_compressed_and_cached_and_pages_are_neither(person: User) -> None:
    assert ui.codemirror.__name__ == "CodeMirror"  # NiceGUI adds the address of a library with its first use
    page = await person.http_client.get("/")
    assert "content-encoding" not in page.headers
    assert page.headers["cache-control"] == "no-store"
    editor = re.findall(r'"nicegui-codemirror": ?"/console(/_nicegui/[^"]+/)index.js"', page.text)[0]
    bundle = re.findall(r'from"\./([^"]+)"', (await person.http_client.get(f"{editor}index.js")).text)[0]
    libraries = {editor + bundle, *re.findall(r'"/console(/_nicegui/[^"]+/static/[^"]+\.(?:js|css))"', page.text)}
    assert len(libraries) > 5
    for path in libraries:
        answer = await person.http_client.get(path, headers={"Accept-Encoding": "gzip"})
        assert answer.status_code == 200, path
        assert answer.headers.get("content-encoding") == "gzip" or len(answer.content) < 500, path
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable", path
    missing = await person.http_client.get(f"{editor}nothing.js")
    assert (missing.status_code, "immutable" in missing.headers.get("cache-control", "")) == (404, False)


async def test_requests_are_bounded(people: People, person: User) -> None:
    browser = people.open_browser()
    declared = await browser.post("/sign-in", content=b"x" * 10_000)
    assert declared.status_code == 413

    async def stream() -> Any:
        for _ in range(10):
            yield b"x" * 1000

    assert (await browser.post("/sign-in", content=stream())).status_code == 413
    assert (await person.http_client.put("/")).status_code == 405
    assert (await browser.post("/sign-in", content=b"\xff\xfe=1&" * 5)).status_code == 403


async def test_a_prefix_of_a_visitor_changes_no_address(person: User) -> None:
    answer = await person.http_client.get("/", headers={"X-Forwarded-Prefix": "/evil"})
    assert "/evil" not in answer.text


async def test_two_people_see_their_own_data_only(
    app: Application, server: str, people: People, person: User, memory: AsyncMnema
) -> None:
    stranger = await make_caller(app)
    await memory.remember("Maya drinks oat milk.", user_id="maya", category="preferences")
    async with AsyncMnema(server, stranger.key) as other_memory:
        await other_memory.remember("Noor plays the violin.", user_id="noor", category="interests")
    other = await people.sign_in(stranger.key)
    await asyncio.gather(person.open("/memories"), other.open("/memories"))
    await sees(person, "Maya drinks oat milk.")
    await sees(other, "Noor plays the violin.")
    await person.should_not_see("Noor plays the violin.")
    await other.should_not_see("Maya drinks oat milk.")


@pytest.mark.long
async def test_no_key_is_in_a_page_a_log_or_an_address(
    people: People, caller: Caller, person: User, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    again = await people.sign_in(caller.key)
    texts = [(await again.http_client.get(path)).text for path in ("/", "/memories", "/jobs", "/keys")]
    client = await again.open("/memories")
    await sees(again, "No memories yet")
    texts += [json.dumps(element.props, default=str) for element in client.elements.values()]
    texts += [record.getMessage() for record in caplog.records] + [str(client.request.url)]
    assert not [text for text in texts if caller.key in text]


@pytest.mark.long
async def test_the_newest_pages_of_a_session_stay_open(people: People, person: User) -> None:
    pages = [(await page_of(person))[0] for _ in range(31)]
    assert set(pages) & set(Client.instances) == set(pages[1:])


async def test_a_silent_websocket_of_a_stranger_ends() -> None:
    receiver = EndingReceiver(asyncio.Queue().get, 0.05)
    assert (await asyncio.wait_for(receiver.receive(), 30))["type"] == "websocket.disconnect"


@pytest.mark.long
async def test_websockets_of_strangers_are_few(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.gate.MOST_STRANGERS", 1)
    both = await asyncio.gather(connect_socket(people, "x"), connect_socket(people, "y"))
    assert [answer == ["websocket.close"] for answer in both] == [False, True]
    assert await connect_socket(people, "z") != ["websocket.close"]


async def test_an_address_that_is_none_breaks_no_form(people: People) -> None:
    assert (await people.open_browser().get("/sign-in?next=//[x")).status_code == 200


async def test_addresses_are_not_logged(person: User, caplog: pytest.LogCaptureFixture) -> None:
    assert (await person.http_client.get("/nothing-of-maya?user_id=maya")).status_code == 404
    logged = [record.getMessage() for record in caplog.records if record.name == "nicegui"]
    assert logged == ["a page was not found"]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("a=1; b=2", "2"),
        ("b=2; b=3", ""),
        ("a=1", ""),
        ("", ""),
        ('a="; b=2', "2"),
    ],
)
def test_cookies_are_read_one_by_one(header: str, value: str) -> None:
    assert read_cookie(Headers({"cookie": header}), "b") == value


def test_pages_of_the_console_only() -> None:
    assert is_local_page("/console/memories?user_id=a%2Fb")
    for address in (
        "/console",
        "/x",
        "//x/console/",
        "/console/sign-in",
        "/console/_nicegui/x",
        "/console/\nx",
        "http:x",
        "//[x",
    ):
        assert not is_local_page(address), address
