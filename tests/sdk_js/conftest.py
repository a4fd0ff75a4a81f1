"""The JavaScript package, built once in a folder of its own, and a Node to run it."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.child_program import run_program

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sdk-js"
MADE = ("node_modules", "dist", "build", "openapi.json", "schema.ts")
"""Names of files that `npm` and `make sdk-js` make in the folder of the package."""
MOST_S = 600
NO_NODE = "needs Node 20 or later with npm"


@dataclass(frozen=True)
class Workshop:
    """A copy of the package that is installed and built, and the environment of its programs."""

    folder: Path
    env: dict[str, str]

    async def run(self, *command: str | Path, folder: Path | None = None, **env: str) -> str:
        """Run a command and return its output. Fail unless it ends with 0."""
        ended = await run_program(*command, env={**self.env, **env}, folder=folder or self.folder, most_s=MOST_S)
        return ended.output()


@pytest.fixture(scope="session")
async def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Install and build the package and its tests."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip(NO_NODE)
    folder = tmp_path_factory.mktemp("javascript") / "sdk-js"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns(*MADE))
    made = Workshop(folder, {**os.environ, "NO_COLOR": "1", "NO_UPDATE_NOTIFIER": "1"})
    document = await made.run(sys.executable, "-m", "app.api.document", folder=ROOT)
    (folder / "openapi.json").write_text(document, encoding="utf-8")
    await made.run("npm", "ci", "--no-audit", "--no-fund")
    await made.run("npm", "run", "build")
    await made.run("npm", "run", "build:test")
    return made
