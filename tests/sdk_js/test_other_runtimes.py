"""The JavaScript package outside Node: its tarball in Deno and in Chromium, against the real server."""

import json
import os
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Route

from tests.console.browser import NEEDS_BROWSER, chromium, open_page
from tests.factories import Caller
from tests.sdk_js.conftest import Workshop

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("sdk_js")]  # the package is built once
DENO = os.environ.get("MNEMA_TEST_DENO") or shutil.which("deno")
PAGE = "/page/"
PROGRAM = """
import { Mnema, MnemaError } from "mnema-client";
const [url, key, user_id] = GIVEN;
const memory = new Mnema({ url, key });
const lines = [];
await memory.remember("Maya deploys on Thursdays.", { user_id });
lines.push(await memory.recall("When do we deploy?", { user_id }));
for await (const change of memory.changes({ user_id, after: "start" })) {
  lines.push(change.event);
  break;
}
await new Mnema({ url, key: "mnema_wrong" }).recall("When?", { user_id }).catch((error) => {
  lines.push(error instanceof MnemaError && error.code);
});
TOLD(lines);
"""
IMPORTS = {
    "mnema-client": f"{PAGE}mnema-client/dist/index.js",
    "openapi-fetch": f"{PAGE}openapi-fetch/dist/index.mjs",
}


def check(lines: list[str]) -> None:
    """Fail unless the program recalled its sentence, followed a change and was refused with a wrong key."""
    [recalled, event, code] = lines
    assert "Maya deploys on Thursdays." in recalled
    assert (event, code) == ("ADD", "unauthenticated")


@pytest.fixture
async def project(workshop: Workshop, tmp_path: Path) -> Path:
    """Return a folder in which the tarball is installed."""
    [packed] = json.loads(await workshop.run("npm", "pack", "--json", "--pack-destination", tmp_path))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "package.json").write_text('{"type": "module"}')
    await workshop.run("npm", "install", "--no-audit", "--no-fund", tmp_path / packed["filename"], folder=folder)
    return folder


@pytest.mark.skipif(DENO is None, reason="needs Deno: MNEMA_TEST_DENO names its program")
async def test_it_runs_in_deno(workshop: Workshop, project: Path, server: str, caller: Caller) -> None:
    given = json.dumps([server, caller.key, "deno"])
    text = PROGRAM.replace("GIVEN", given).replace("TOLD(lines)", "console.log(JSON.stringify(lines))")
    (project / "first.ts").write_text(text)
    granted = ("--allow-env", f"--allow-net={urlsplit(server).netloc}", f"--allow-read={project}")
    told = await workshop.run(str(DENO), "run", "--no-check", *granted, "first.ts", folder=project)
    check(json.loads(told.splitlines()[-1]))


@NEEDS_BROWSER
async def test_it_runs_in_a_browser(project: Path, server: str, caller: Caller) -> None:
    """Serve page and package by Playwright from the server's own origin: the page's `fetch` goes to the real server."""
    program = PROGRAM.replace("GIVEN", json.dumps([server, caller.key, "browser"])).replace("TOLD", "window.told = ")
    html = (
        f'<!doctype html><script type="importmap">{json.dumps({"imports": IMPORTS})}</script>'
        f'<script type="module">{program}</script>'
    )

    async def answer(route: Route) -> None:
        name = urlsplit(route.request.url).path.removeprefix(PAGE)
        if name:
            await route.fulfill(path=project / "node_modules" / name, content_type="text/javascript")
        else:
            await route.fulfill(body=html, content_type="text/html")

    async with chromium() as browser:
        page = await open_page(browser)
        await page.route(f"{server}{PAGE}**", answer)
        await page.goto(f"{server}{PAGE}")
        check(await (await page.wait_for_function("window.told")).json_value())
