"""A session in a real browser: keys, revocation, attack strings, keyboard, theme and sizes."""

from mnema_client import AsyncMnema
from playwright.async_api import Browser, Page, Response

from app.bootstrap import Application
from console.routes import ROUTES
from tests.console.browser import NEEDS_BROWSER, open_page, sign_in, visit, wait_until_ready
from tests.factories import Caller, make_caller

pytestmark = NEEDS_BROWSER
MOST_BYTES = 200_000
ATTACKS = [
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "[click](javascript:document.title='owned') ![x](http://evil.test/x.png)",
    "${document.title='owned'} {{constructor.constructor('document.title=1')()}} `</script><script>alert(1)//",
]


async def watch(page: Page, console: str) -> list[str]:
    """Collect the addresses of requests that leave the console, and dialogs that a script opens."""
    seen: list[str] = []
    origin = console.removesuffix("/console")
    page.on(
        "request",
        lambda request: None if request.url.startswith((origin, "data:", "blob:")) else seen.append(request.url),
    )
    page.on("dialog", lambda dialog: seen.append(dialog.message))
    return seen


async def test_attack_strings_are_shown_and_do_nothing(
    browser: Browser, console: str, caller: Caller, memory: AsyncMnema
) -> None:
    ids = []
    for number, text in enumerate(ATTACKS):
        turn = await memory.add_turn(text, user_id=f"<b>{number}</b>", thread_id="t", role="user")
        ids.append(turn.id)
    page = await open_page(browser)
    seen = await watch(page, console)
    await sign_in(page, console, caller.key)
    for path in ("/memories", *(f"/memories/{memory_id}" for memory_id in ids)):
        await visit(page, console + path)
        assert "Mnema" in await page.title()
    await page.get_by_text("{{constructor.constructor").first.wait_for()
    assert not await page.locator("main script, main img, main b").count()
    assert seen == []


async def test_an_injected_script_does_not_run(browser: Browser, console: str, caller: Caller) -> None:
    page = await open_page(browser)
    await sign_in(page, console, caller.key)
    inject = """() => {
        const holder = document.createElement("div");
        holder.innerHTML = "<img src=x onerror=\\"document.title='owned'\\">";
        document.body.append(holder);
        const script = document.createElement("script");
        script.textContent = "document.title='owned'";
        document.body.append(script);
    }"""
    await page.evaluate(inject)
    await page.wait_for_timeout(300)
    assert await page.title() == "Home · Mnema"


async def test_a_revoked_key_and_a_sign_out_lead_to_the_form(
    browser: Browser, console: str, app: Application, caller: Caller
) -> None:
    extra = await make_caller(app, ["query"], None, caller)
    page = await open_page(browser)
    await sign_in(page, console, extra.key)
    await visit(page, f"{console}/memories")
    await page.get_by_text("No memories yet").wait_for()
    assert extra.scope.key_id is not None
    await app.tenancy.tenants.revoke_key(extra.scope.tenant_id, extra.scope.key_id)
    await page.get_by_role("button", name="Search").click()
    await page.get_by_text("Your key is no longer valid.").wait_for()
    await sign_in(page, console, caller.key)
    other_tab = await page.context.new_page()
    await other_tab.goto(f"{console}/jobs")
    await other_tab.get_by_role("heading", name="Jobs", level=1).wait_for()
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_text("You are signed out.").wait_for()
    await other_tab.get_by_text("You are signed out.").wait_for()
    await page.go_back()
    await page.get_by_label("API key").wait_for()
    names = {cookie["name"] for cookie in await page.context.cookies()}
    assert "mnema_console" not in names


async def test_a_wrong_key_is_explained(browser: Browser, console: str) -> None:
    page = await open_page(browser)
    await page.goto(console)
    await page.get_by_label("API key").fill("mnema_wrong")
    await page.keyboard.press("Enter")
    await page.get_by_role("alert").get_by_text("unknown, revoked or expired").wait_for()
    assert "mnema_wrong" not in page.url + await page.content()


async def test_the_keyboard_is_enough(browser: Browser, console: str, caller: Caller) -> None:
    page = await open_page(browser)
    await sign_in(page, console, caller.key)
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
    await page.keyboard.press("g")
    await page.keyboard.press("m")
    await page.get_by_role("heading", name="Memories", level=1).wait_for()
    await wait_until_ready(page)
    await page.keyboard.press("/")
    await page.keyboard.type("g oat")
    assert await page.get_by_label("Words").input_value() == "g oat"
    await page.get_by_label("Words").blur()
    await page.keyboard.press("?")
    await page.get_by_text("Go to the search").wait_for()
    await page.keyboard.press("Escape")
    await page.locator(".q-dialog").wait_for(state="detached")
    await page.keyboard.press("t")
    await page.wait_for_function("document.body.classList.contains('body--dark')")
    await page.reload()
    await page.wait_for_function("document.body.classList.contains('body--dark')")


async def test_no_answer_is_large(browser: Browser, console: str, caller: Caller, memory: AsyncMnema) -> None:
    for ending in (".", " at noon.", " with slides."):
        await memory.remember(f"Maya presents the launch plan on Monday{ending}", user_id="maya", category="tasks")
    page = await open_page(browser)
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    await page.goto(f"{console}/sign-in")
    await page.get_by_label("API key").fill(caller.key)
    await page.get_by_role("button", name="Sign in").click()
    sizes: dict[str, int] = {}
    for path in (*(route.path for route in ROUTES if route.shortcut), "/graph?user_id=maya"):
        await visit(page, console + path)
        if "user_id" in path:
            await page.get_by_text("The same as a table").wait_for()
        await page.wait_for_load_state("networkidle")
        sizes |= {answer.url: (await answer.request.sizes())["responseBodySize"] for answer in answers}
        answers.clear()
    assert len(sizes) > len(ROUTES) + 5
    assert {url: size for url, size in sizes.items() if size > MOST_BYTES} == {}
