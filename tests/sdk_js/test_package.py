"""The JavaScript package in the supported versions of Node, and as users install it: from its tarball."""

import json
import re
from pathlib import Path

import httpx
import pytest

from tests.factories import Caller
from tests.pages.blocks import blocks_of
from tests.sdk_js.conftest import PACKAGE, Workshop

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("sdk_js")]  # the package is built once
USE = """
const memory = new Mnema({ url: process.argv[2], key: process.argv[3] });
const user_id = process.argv[4];
memory.remember("Maya deploys on Thursdays.", { user_id, category: "tasks" })
  .then(() => memory.recall("When do we deploy?", { user_id, agent: "planner" }))
  .then((known) => console.log(known));
"""
TYPED = """
import { Mnema, type Answer, type components } from "mnema-client";
const memory = new Mnema({ url: "http://127.0.0.1", key: "k" });
export const answered: Promise<Answer> = memory.query({ agent: "planner", query: "When?" });
export const kind: components["schemas"]["Memory"]["state"] = "active";
// @ts-expect-error: a question has no such field
export const wrong = memory.query({ agent: "planner", query: "When?", user_ids: ["maya"] });
"""
STRICT = ("--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom,dom.iterable")


@pytest.mark.parametrize("version", ["20", "22"])
async def test_the_tests_of_the_package_pass(workshop: Workshop, server: str, caller: Caller, version: str) -> None:
    own = (await workshop.run("node", "--version")).removeprefix("v").partition(".")[0]
    with_node = () if own == version else ("npx", "--yes", "--package", f"node@{version}", "--")
    assert (await workshop.run(*with_node, "node", "--version")).startswith(f"v{version}.")
    told = await workshop.run(*with_node, "npm", "test", MNEMA_URL=server, MNEMA_API_KEY=caller.key)
    counts = dict(line.split()[1:] for line in told.splitlines() if line.startswith(("# pass", "# fail", "ℹ pass")))
    assert int(counts["pass"]) > 40, told


async def test_the_tarball_is_used_in_an_empty_folder(
    workshop: Workshop, server: str, caller: Caller, tmp_path: Path
) -> None:
    [packed] = json.loads(await workshop.run("npm", "pack", "--json", "--pack-destination", tmp_path))
    names = {file["path"] for file in packed["files"]}
    assert {"package.json", "README.md", "dist/index.js", "dist/index.d.ts", "dist/schema.d.ts"} <= names
    assert {name.partition("/")[0] for name in names} == {"package.json", "README.md", "dist"}
    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text('{"type": "module"}')
    tarball = tmp_path / packed["filename"]
    await workshop.run("npm", "install", "--no-audit", "--no-fund", tarball, folder=project)
    installed = {path.name for path in (project / "node_modules").iterdir() if path.name[0] != "."}
    assert installed == {"mnema-client", "openapi-fetch", "openapi-typescript-helpers"}
    imported = 'import { Mnema } from "mnema-client";'
    required = 'const { Mnema } = require("mnema-client");'
    for name, opening in (("use.mjs", imported), ("use.cjs", required)):
        (project / name).write_text(opening + USE)
        told = await workshop.run("node", name, server, caller.key, name, folder=project)
        assert "Maya deploys on Thursdays." in told
    (project / "typed.ts").write_text(TYPED)
    await workshop.run(workshop.folder / "node_modules/.bin/tsc", *STRICT, "typed.ts", folder=project)


async def test_the_types_are_those_of_the_servers_document(workshop: Workshop, server: str, tmp_path: Path) -> None:
    async with httpx.AsyncClient(base_url=server) as client:
        served = (await client.get("/openapi.json")).json()
    assert json.loads((workshop.folder / "openapi.json").read_text(encoding="utf-8")) == served
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(served))
    generator = workshop.folder / "node_modules/.bin/openapi-typescript"
    await workshop.run(generator, document, "--output", tmp_path / "schema.ts")
    assert (tmp_path / "schema.ts").read_text() == (workshop.folder / "src/schema.ts").read_text()


EXAMPLES: dict[str, str] = {
    "first_steps": "[tasks] Maya deploys to staging every Thursday.",
    "ai_sdk_chat": "I read 2 messages",
    "langgraph_notes": "The venue has room for eighty.",
    "follow_changes": "ADD Noor invites the neighbours.",
}


@pytest.mark.parametrize("name", EXAMPLES)
async def test_the_example_runs(workshop: Workshop, server: str, caller: Caller, name: str) -> None:
    program = f"build/examples/{name}.js"
    told = await workshop.run("node", program, MNEMA_URL=server, MNEMA_API_KEY=caller.key)
    assert EXAMPLES[name] in told


async def test_the_programs_of_the_pages_run(workshop: Workshop, server: str, caller: Caller) -> None:
    """Run the blocks of docs/javascript.md and of the package's page, but the one that needs a provider."""
    blocks = [*blocks_of("docs/javascript.md", "ts"), *blocks_of("sdk-js/README.md", "ts")]
    programs = {f"page_{n}": block.text for n, block in enumerate(blocks) if "@ai-sdk/openai" not in block.text}
    for name, text in programs.items():
        ready = text.replace("http://127.0.0.1:8000", server).replace("mnema_…", caller.key)
        (workshop.folder / "examples" / f"{name}.ts").write_text(ready, encoding="utf-8")
    await workshop.run("npm", "run", "build:test")
    for name, text in programs.items():
        told = await workshop.run("node", f"build/examples/{name}.js", MNEMA_URL=server, MNEMA_API_KEY=caller.key)
        promised = re.findall(r"^ *(?:if \(.*\) )?console\.log\(.*\); // ([^`\n]+)$", text, re.MULTILINE)
        assert [line for line in promised if line not in told] == []
        assert told.strip()


def test_every_example_is_run() -> None:
    assert {path.stem for path in (PACKAGE / "examples").glob("*.ts")} == EXAMPLES.keys()
