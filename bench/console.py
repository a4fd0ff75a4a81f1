"""The console on a large tenant: the time until each page has its first content, and the size of what it loads.

`mnema bench console` needs Chromium and the package playwright (requirements-dev.lock).
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Final
from urllib.parse import urlencode

import httpx
from mnema_client import AsyncMnema, calls
from playwright.async_api import Page, Response, WebSocket, async_playwright

from app.embedded.postgres import free_port
from bench import workload
from bench.child_processes import ROOT, running_server
from bench.console_site import load_tenant, user_name
from bench.http_clients import HOST
from bench.throwaway import open_site
from console.routes import ROUTES

READY_S: Final = 60
SHOWN_MS: Final = 30_000
POLL_MS: Final = 10
IDLE_CONTENT: Final = "() => document.querySelector('h1') && !document.body.innerText.includes('Loading…')"
FIRST_PAINT: Final = (
    "() => performance.getEntriesByName('first-contentful-paint').map(entry => entry.startTime)[0] ?? 0"
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run: memories of one tenant, its users, and visits of each page."""

    memories: int = 100_000
    users: int = 2_000
    visits: int = 5
    browser: str = "/usr/bin/chromium"


@dataclass(slots=True)
class PageFigures:
    """Figures of one page: milliseconds of each visit, and bytes.

    `painted_ms`: until the browser has painted the page's title. `loaded_ms`: until each part of the page has its
    data. `largest_bytes`: the largest answer or websocket message, on the wire, of the visits after the first.
    """

    path: str
    painted_ms: list[float] = field(default_factory=list)
    loaded_ms: list[float] = field(default_factory=list)
    largest_bytes: int = 0
    largest: str = ""

    def describe(self) -> str:
        """Return the figures in one line."""
        painted, loaded = median(self.painted_ms), median(self.loaded_ms)
        size = f"largest {self.largest_bytes / 1000:.0f} KB {self.largest}"
        return f"painted {painted:.0f} ms, loaded {loaded:.0f} ms (longest {max(self.loaded_ms):.0f}), {size}"


@dataclass(slots=True)
class Report:
    """The figures of all pages. `cold_bytes` is the largest answer of a browser without a cache."""

    plan: Plan
    pages: list[PageFigures] = field(default_factory=list)
    cold_bytes: int = 0
    cold: str = ""
    profile: None = None

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values for `--json`."""
        return asdict(self)

    def lines(self) -> list[tuple[str, str]]:
        """Return a name and a figure for each row of a table."""
        rows = [(page.path, page.describe()) for page in self.pages]
        return [*rows, ("first visit, nothing cached", f"largest answer {self.cold_bytes / 1000:.0f} KB {self.cold}")]


def run(plan: Plan, say: Callable[[str], None]) -> Report:
    """Load a tenant, run server and console, visit each page, and remove everything."""
    report = Report(plan)
    with open_site(0) as site:
        say(f"loading {plan.memories} memories of {plan.users} users")
        key = load_tenant(site, plan.memories, plan.users)
        home = site.home.path
        with (
            running_server("bench.http_server", str(home), log=home / "server.log") as (_process, port),
            _running_console(f"http://{HOST}:{port}") as console,
        ):
            asyncio.run(_visit_pages(report, f"http://{HOST}:{port}", console, key, say))
    return report


@contextlib.contextmanager
def _running_console(api_url: str) -> Iterator[str]:
    """Run the console in a process of its own; yield its address."""
    port = free_port()
    variables = {"MNEMA_CONSOLE_API_URL": api_url, "MNEMA_CONSOLE_PORT": str(port)}
    process = subprocess.Popen([sys.executable, "-m", "console"], cwd=ROOT, env=os.environ | variables)
    url = f"http://{HOST}:{port}/console"
    try:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(f"{url}/health", trust_env=False).raise_for_status()
                break
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


async def _visit_pages(report: Report, api_url: str, console: str, key: str, say: Callable[[str], None]) -> None:
    """Sign in with a new browser, visit each page in turn, several times, and keep its figures."""
    plan = report.plan
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=plan.browser, args=["--no-sandbox"])
        try:
            page = await browser.new_page()
            sizes = _Sizes(page)
            await page.goto(f"{console}/sign-in")
            await page.get_by_label("API key").fill(key)
            await page.get_by_role("button", name="Sign in").click()
            await page.wait_for_function(IDLE_CONTENT, timeout=SHOWN_MS)
            addresses = _page_addresses(plan, await _first_memory(api_url, key))
            for address in addresses:  # fills the browser's cache
                await _visit_page(page, f"{console}{address}")
            await sizes.settle()
            report.cold_bytes, report.cold = sizes.take_largest()
            for address in addresses:
                figures = PageFigures(address)
                for _visit in range(plan.visits):
                    painted, loaded = await _visit_page(page, f"{console}{address}")
                    figures.painted_ms.append(painted)
                    figures.loaded_ms.append(loaded)
                await sizes.settle()
                figures.largest_bytes, figures.largest = sizes.take_largest()
                report.pages.append(figures)
                say(f"{address}: {median(figures.loaded_ms):.0f} ms")
        finally:
            await browser.close()


async def _visit_page(page: Page, url: str) -> tuple[float, float]:
    """Open a page. Return the milliseconds until its first paint, and until all its parts have their data."""
    started = time.perf_counter()
    await page.goto(url, wait_until="commit")
    await page.wait_for_function(IDLE_CONTENT, timeout=SHOWN_MS, polling=POLL_MS)
    return float(await page.evaluate(FIRST_PAINT)), (time.perf_counter() - started) * 1000


async def _first_memory(api_url: str, key: str) -> str:
    async with AsyncMnema(api_url, key) as memory:
        return str((await memory.send(calls.page(limit=1))).items[0].id)


def _page_addresses(plan: Plan, memory_id: str) -> list[str]:
    """Return the address of each page, and of the pages about one user, thread and memory."""
    user = user_name(7, plan.users)
    about = {"user_id": user}
    word = workload.make_note(1).text.split()[1].strip(".").lower()
    return [
        *(route.path for route in ROUTES if route.shortcut),
        f"/memories?{urlencode({'q': word})}",
        f"/memories/{memory_id}",
        *(f"{path}?{urlencode(about)}" for path in ("/people", "/graph", "/threads", "/facts")),
        f"/threads?{urlencode(about | {'thread_id': f'{user}/1'})}",
    ]


class _Sizes:
    """The largest answer and websocket message that a page has loaded, on the wire."""

    def __init__(self, page: Page) -> None:
        self._pending: list[asyncio.Task[None]] = []
        self._largest = (0, "")
        page.on("response", lambda response: self._pending.append(asyncio.create_task(self._measure(response))))
        page.on("websocket", self._watch_socket)

    async def settle(self) -> None:
        """Wait for the sizes of all answers so far."""
        await asyncio.gather(*self._pending, return_exceptions=True)
        self._pending.clear()

    def take_largest(self) -> tuple[int, str]:
        """Return the largest size with its address, and begin anew."""
        largest, self._largest = self._largest, (0, "")
        return largest

    async def _measure(self, response: Response) -> None:
        sizes = await response.request.sizes()
        self._note(sizes["responseBodySize"], response.url)

    def _watch_socket(self, socket: WebSocket) -> None:
        socket.on("framereceived", lambda data: self._note(len(data), "websocket"))

    def _note(self, size: int, name: str) -> None:
        self._largest = max(self._largest, (size, name.rsplit("/", 1)[-1].split("?")[0]))
