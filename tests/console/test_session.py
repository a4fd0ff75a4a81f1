"""Signing in and out, and the end of a session."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie

import httpx
import pytest
from mnema_client import AsyncMnema, NoAnswer
from nicegui.testing import User

from app.bootstrap import Application
from console.registry import WATCHER
from console.session import COOKIE, FormTokens, SessionCookies
from console.settings import ConsoleSettings
from tests.console.conftest import SECRET
from tests.console.people import ORIGIN, TOKEN, People, sees
from tests.factories import Caller, make_caller

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def cookie_of(answer: httpx.Response, name: str = COOKIE) -> str:
    """Return the Set-Cookie header of this name."""
    [header] = [line for line in answer.headers.get_list("set-cookie") if line.startswith(f"{name}=")]
    return header


def is_refused(answer: httpx.Response) -> bool:
    """Tell whether a page sends its visitor to the form."""
    return answer.status_code == 303 and answer.headers["location"].startswith("/console/sign-in")


async def test_without_a_session_every_page_leads_to_the_form(people: People) -> None:
    browser = people.open_browser()
    for path in ("/", "/memories?user_id=maya", "/jobs", "/keys", "/nothing", "/_nicegui/auto/x"):
        answer = await browser.get(path)
        assert is_refused(answer), path
    answer = await browser.get("/memories?user_id=maya")
    assert answer.headers["location"] == "/console/sign-in?next=/console/memories%3Fuser_id%3Dmaya"


async def test_the_cookie_is_closed_to_scripts_other_sites_and_readers(people: People, caller: Caller) -> None:
    answer = await people.send_key(people.open_browser(), caller.key)
    header = cookie_of(answer)
    morsel = SimpleCookie(header)[COOKIE]
    assert (morsel["httponly"], morsel["samesite"], morsel["path"]) == (True, "strict", "/console")
    assert not morsel["secure"]  # plain HTTP
    assert caller.key not in header + answer.text
    opened = SessionCookies(SECRET).open_session(morsel.value, datetime.now(UTC))
    assert opened is not None
    assert opened.api_key == caller.key
    assert SessionCookies("another secret of the same length").open_session(morsel.value, datetime.now(UTC)) is None


async def test_behind_tls_cookies_are_secure_and_browsers_stay_there(
    console_settings: ConsoleSettings, people: People, caller: Caller
) -> None:
    console_settings.tls = True
    browser = people.open_browser(origin=ORIGIN.replace("http:", "https:"))
    answer = await people.send_key(browser, caller.key)
    assert SimpleCookie(cookie_of(answer))[COOKIE]["secure"]
    assert answer.headers["strict-transport-security"]


async def test_a_sign_in_leads_to_the_wanted_page_of_the_console_only(people: People, caller: Caller) -> None:
    wanted = await people.send_key(people.open_browser(), caller.key, next="/console/memories?user_id=maya")
    assert wanted.headers["location"] == "/console/memories?user_id=maya"
    for elsewhere in (
        "https://evil.test/",
        "//evil.test/console/",
        "/console//evil.test",
        "/console/\\evil.test",
        "/x",
    ):
        answer = await people.send_key(people.open_browser(), caller.key, next=elsewhere)
        assert answer.headers["location"] == "/console/", elsewhere


@pytest.mark.parametrize("key", ["mnema_wrong", "", "with spaces in it", "x" * 600, "ключ"])
async def test_a_wrong_key_is_refused_and_never_shown_again(people: People, key: str) -> None:
    browser = people.open_browser()
    answer = await people.send_key(browser, key)
    assert answer.status_code in (401, 422)
    assert COOKIE not in browser.cookies
    assert not key or key not in answer.text
    assert 'role="alert"' in answer.text


async def test_attempts_of_an_address_are_limited(people: People, caller: Caller) -> None:
    browser = people.open_browser("192.0.2.7")
    for _ in range(10):
        assert (await people.send_key(browser, "mnema_wrong")).status_code == 401
    answer = await people.send_key(browser, caller.key)
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
    assert (await people.send_key(people.open_browser("192.0.2.8"), caller.key)).status_code == 303


async def test_strangers_try_few_keys_as_the_operators(people: People, caller: Caller) -> None:
    for number in range(7):
        answer = await people.send_key(people.open_browser(f"192.0.2.{number}"), "a-guess-at-the-operators-key")
        assert answer.status_code == (401 if number < 5 else 429)
    assert (await people.send_key(people.open_browser("192.0.2.1"), caller.key)).status_code == 303


async def test_right_keys_do_not_count_as_attempts(people: People, caller: Caller) -> None:
    for _ in range(12):
        assert (await people.send_key(people.open_browser("192.0.2.9"), caller.key)).status_code == 303


async def test_a_form_of_another_site_or_another_visitor_is_refused(people: People, caller: Caller) -> None:
    browser, other = people.open_browser(), people.open_browser()
    token = TOKEN.findall((await other.get("/sign-in")).text)[0]
    await browser.get("/sign-in")
    forged = await browser.post("/sign-in", data={"token": token, "key": caller.key})
    assert forged.status_code == 403
    for origin in ("http://evil.test", "null", "http://console.test.evil.test", ""):
        browser.headers["Origin"] = origin
        answer = await browser.post("/sign-in", data={"token": token, "key": caller.key})
        assert (answer.status_code, COOKIE in browser.cookies) == (403, False), origin


async def test_signing_out_ends_the_session_even_for_a_copied_cookie(people: People, person: User) -> None:
    page = (await person.http_client.get("/")).text
    copied = people.open_browser()
    copied.cookies.set(COOKIE, person.http_client.cookies[COOKIE], domain="console.test", path="/console")
    assert (await copied.get("/")).status_code == 200
    forged = await person.http_client.post("/sign-out", data={"token": "no.token"})
    assert forged.headers["location"] == "/console/"
    assert (await copied.get("/")).status_code == 200
    [token] = [part.split('"')[0] for part in page.split('"value":"')[1:] if "." in part.split('"')[0]]
    answer = await person.http_client.post("/sign-out", data={"token": token})
    assert answer.headers["location"] == "/console/sign-in?reason=out"
    assert "You are signed out." in (await person.http_client.get("/sign-in?reason=out")).text
    assert is_refused(await person.http_client.get("/"))
    assert is_refused(await copied.get("/"))


async def test_a_revoked_key_ends_the_session_at_a_call(app: Application, people: People, caller: Caller) -> None:
    extra = await make_caller(app, ["query"], None, caller)
    person = await people.sign_in(extra.key)
    await person.open("/memories")
    await sees(person, "No memories yet")
    assert extra.scope.key_id is not None
    await app.tenancy.tenants.revoke_key(extra.scope.tenant_id, extra.scope.key_id)
    person.find("filter-q").trigger("keydown.enter")
    await person.should_not_see("Try again")
    for _ in range(100):
        answer = await person.http_client.get("/memories")
        if is_refused(answer):
            break
    assert is_refused(answer)
    form = await person.http_client.get("/sign-in?reason=revoked")
    assert "no longer valid" in form.text
    assert "Max-Age=0" in cookie_of(form)


@pytest.mark.long
async def test_an_open_page_of_a_revoked_key_ends_without_a_call(
    app: Application, people: People, caller: Caller
) -> None:
    extra = await make_caller(app, ["query"], None, caller)
    person, other = await people.sign_in(extra.key), await people.sign_in(caller.key)
    clients = [await person.open("/memories"), await person.open("/facts")]
    kept = await other.open("/memories")
    opened: list[tuple[str, str]] = []
    for client in (*clients, kept):
        client.open = lambda target, new_tab=False, page=client.id: opened.append((page, str(target)))  # type: ignore[method-assign, misc]
    assert extra.scope.key_id is not None
    await app.tenancy.tenants.revoke_key(extra.scope.tenant_id, extra.scope.key_id)
    for _ in range(200):
        if opened:
            break
        await asyncio.sleep(0.1)
    assert sorted(opened) == sorted((client.id, "/sign-in?reason=revoked") for client in clients)
    assert is_refused(await person.http_client.get("/memories"))
    assert not is_refused(await other.http_client.get("/memories"))


async def test_one_task_watches_the_key_for_all_pages_until_the_last_closes(person: User) -> None:
    def watchers() -> int:
        return len([task for task in asyncio.all_tasks() if task.get_name() == WATCHER])

    clients = [await person.open("/keys") for _ in range(5)]
    assert watchers() == 1
    for client in clients:
        client.delete()
    for _ in range(200):
        if not watchers():
            break
        await asyncio.sleep(0.1)
    assert not watchers()


@pytest.mark.long
async def test_an_api_that_fails_ends_no_session(people: People, person: User, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    async def fail(_client: AsyncMnema) -> object:
        calls.append(1)
        raise NoAnswer("The server could not be reached.", code="no_answer")

    await person.open("/facts")
    monkeypatch.setattr(AsyncMnema, "describe_key", fail)
    for _ in range(200):
        if len(calls) >= 2:
            break
        await asyncio.sleep(0.1)
    assert len(calls) >= 2
    monkeypatch.undo()
    assert not is_refused(await person.http_client.get("/memories"))


@pytest.mark.long
async def test_an_open_page_ends_with_its_session(people: People, caller: Caller) -> None:
    browser = people.open_browser()
    ends = datetime.now(UTC) + timedelta(seconds=2)
    session = replace(SessionCookies(SECRET).create_session(caller.key, NOW), expires_at=ends)
    browser.cookies.set(COOKIE, SessionCookies(SECRET).seal_session(session), domain="console.test", path="/console")
    person = User(browser)
    client = await person.open("/memories")
    opened: list[str] = []
    client.open = lambda target, new_tab=False: opened.append(str(target))  # type: ignore[method-assign]
    for _ in range(100):
        if opened:
            break
        await asyncio.sleep(0.1)
    assert opened == ["/sign-in?reason=over"]
    assert is_refused(await browser.get("/memories"))


def test_a_session_ends_after_its_hours() -> None:
    cookies = SessionCookies(SECRET, hours=2)
    sealed = cookies.seal_session(cookies.create_session("key", NOW))
    assert cookies.open_session(sealed, NOW + timedelta(hours=1.9)) is not None
    assert cookies.open_session(sealed, NOW + timedelta(hours=2)) is None


def test_a_former_secret_still_opens_sessions() -> None:
    former = SessionCookies(SECRET)
    sealed = former.seal_session(former.create_session("key", NOW))
    rotated = SessionCookies("a new secret that is long enough, too", SECRET)
    assert rotated.open_session(sealed, NOW) is not None
    assert former.open_session(rotated.seal_session(rotated.create_session("key", NOW)), NOW) is None


@pytest.mark.parametrize("value", ["", "x", "gAAAAA", "ü", "a" * 5000])
def test_a_damaged_cookie_is_no_session(value: str) -> None:
    assert SessionCookies(SECRET).open_session(value, NOW) is None


def test_a_form_token_is_bound_to_its_name() -> None:
    tokens = FormTokens(SECRET)
    token = tokens.create_token("one")
    assert tokens.is_valid(token, "one")
    assert not tokens.is_valid(token, "other")
    assert not tokens.is_valid(token + "0", "one")
    assert not tokens.is_valid(FormTokens(SECRET + "x").create_token("one"), "one")
    assert not tokens.is_valid(FormTokens(SECRET).create_token(""), "")
    assert token != tokens.create_token("one")


def test_a_session_hides_its_key() -> None:
    session = SessionCookies(SECRET).create_session("mnema_secret", NOW)
    assert "mnema_secret" not in repr(session)
