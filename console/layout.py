"""The frame of every page: navigation, the person's key, theme, help and sign-out."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from inspect import isawaitable
from pathlib import Path

from mnema_client import MnemaError, TimedOut, Unauthenticated
from nicegui import ui
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from console.context import PageContext
from console.keys import OPERATOR_HOME
from console.registry import SIGN_IN, SessionRegistry
from console.routes import ROUTES, PageRoute
from console.session import COOKIE_PATH, SESSION, FormTokens, Session, read_clock
from console.texts import shorten_text
from console.widgets.section import heading
from console.widgets.states import show_error, show_note
from console.widgets.text import show_link

STATIC = Path(__file__).parent / "static"
THEME_COOKIE = "mnema_console_theme"
THEMES = {"light": False, "dark": True}
RESPONSE_S = 15.0
DESCRIBE_S = 5.0
"""Seconds that a page waits for the description of its key, before it shows that the API does not answer."""
SHORTCUTS = [
    ("/", "Go to the search"),
    ("g, then a letter", "Open a page; the letters are in the navigation"),
    ("t", "Switch between light and dark"),
    ("?", "Show this help"),
    ("Esc", "Close a dialog"),
]


def register_pages(registry: SessionRegistry, tokens: FormTokens) -> None:
    """Register all pages with NiceGUI."""
    for route in ROUTES:
        ui.page(route.path, title=f"{route.title} · Mnema", response_timeout=RESPONSE_S)(
            _build_opener(route, registry, tokens)
        )


def _build_opener(
    route: PageRoute, registry: SessionRegistry, tokens: FormTokens
) -> Callable[[Request], Awaitable[Response | None]]:
    async def open_page(request: Request) -> Response | None:
        session: Session = request.scope[SESSION]
        client = ui.context.client
        opened = registry.open_page(session, client)
        params = {**request.query_params, **request.path_params}
        page = PageContext(route.path, params, opened, registry, client)
        client.on_exception(page.report_error)
        failure: MnemaError | None = None
        try:
            async with asyncio.timeout(DESCRIBE_S):
                await opened.describe()
        except TimeoutError:
            failure = TimedOut("It took too long. Try again in a moment.", code="timed_out")
        except Unauthenticated:
            page.end_session("revoked")
            return RedirectResponse(f"{COOKIE_PATH}{SIGN_IN}?reason=revoked", 303)
        except MnemaError as error:
            failure = error
        with show_frame(page, route, tokens.create_token(session.id), request.cookies.get(THEME_COOKIE, "")):
            if page.key.is_operator and route.path != OPERATOR_HOME:
                show_note("The operator's key opens tenants and their keys, and no tenant's data.", "warning")
                show_link("Open the keys", OPERATOR_HOME)
            elif failure is not None:
                show_error(failure, lambda: ui.navigate.reload())
            else:
                shown = route.show(page)
                if isawaitable(shown):
                    await shown
        # last: a timer waits for the browser, and NiceGUI would send the page as soon as anything does
        left_s = (session.expires_at - read_clock()).total_seconds()
        ui.timer(max(left_s, 0.1), lambda: page.end_session("over"), once=True)
        return None

    return open_page


@contextmanager
def show_frame(page: PageContext, route: PageRoute, token: str, theme: str) -> Iterator[None]:
    """Show the frame; the block inside builds the page's own part."""
    ui.dark_mode(THEMES.get(theme))
    for name in ("console.css", "console.js"):
        ui.add_head_html(_asset_tag(name))
    drawer = ui.left_drawer(value=None, bordered=True).props("breakpoint=900 width=230").classes("side")
    with ui.header().classes("top"):
        with ui.element("a").props("href=#main-content").classes("skip"):
            ui.label("Skip to the content")
        ui.button(icon="menu", on_click=drawer.toggle).props('flat round dense aria-label="Navigation"')
        with ui.element("a").classes("brand").props(f"href={COOKIE_PATH}/"):
            ui.label("Mnema")
        ui.element("div").classes("grow")
        _show_key(page)
        _show_tools(token)
    with drawer:
        _show_navigation(page, route)
    _build_help()
    with ui.element("div").classes("page").props("id=main-content tabindex=-1"):
        heading(route.title, 1)
        yield


def _show_key(page: PageContext) -> None:
    """Show whose data this is: the tenant and the key's name, which are texts of callers."""
    words = [word for word in (page.key.tenant, page.key.name) if word]
    if words:
        ui.label(" · ".join(shorten_text(word, 40) for word in words)).classes("key-name")


def _show_tools(token: str) -> None:
    ui.button(icon="contrast").props('flat round dense data-theme aria-label="Light or dark"').tooltip(
        "Light or dark (t)"
    )
    ui.button(icon="help_outline").props('flat round dense data-help aria-label="Keyboard shortcuts"')
    with ui.element("form").props(f"method=post action={COOKIE_PATH}/sign-out"):
        ui.element("input").props("type=hidden name=token").props["value"] = token
        ui.button("Sign out").props("flat dense type=submit").classes("sign-out")


def _show_navigation(page: PageContext, route: PageRoute) -> None:
    with ui.element("nav").props('aria-label="Pages"'), ui.element("ul").classes("nav"):
        for entry in ROUTES:
            if not entry.shortcut or (page.key.is_operator and entry.path != OPERATOR_HOME):
                continue
            with ui.element("li"), ui.element("a") as link:
                ui.icon(entry.icon).props("aria-hidden=true")
                ui.label(entry.title).classes("grow")
                with ui.element("kbd").props("aria-hidden=true"):
                    ui.label(f"g {entry.shortcut}")
            link.props["href"] = COOKIE_PATH + entry.path
            link.props["data-shortcut"] = entry.shortcut
            if entry.path in (route.path, route.below):
                link.props["aria-current"] = "page"


def _build_help() -> None:
    with ui.dialog().props('data-help-dialog aria-label="Keyboard shortcuts"') as dialog, ui.card().classes("dialog"):
        ui.label("Keyboard shortcuts").classes("dialog-title")
        with ui.element("dl").classes("pairs"):
            for keys, meaning in SHORTCUTS:
                with ui.element("dt"), ui.element("kbd"):
                    ui.label(keys)
                with ui.element("dd"):
                    ui.label(meaning)
        ui.button("Close", on_click=dialog.close).props("outline")
    ui.button("Help", on_click=dialog.open).props("data-open-help tabindex=-1 aria-hidden=true").classes("hidden")


def _asset_tag(name: str) -> str:
    version = sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    address = f"{COOKIE_PATH}/static/{name}?v={version}"
    if name.endswith(".css"):
        return f'<link rel="stylesheet" href="{address}">'
    return f'<script defer src="{address}"></script>'
