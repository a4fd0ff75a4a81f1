"""Every Python block of the pages runs against a real server, and prints what its page says."""

import ast
import gc
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from importlib.util import find_spec
from typing import Any

import pytest

from tests.fake_chat import fake_chat
from tests.fake_claude import fake_claude
from tests.index_worker import index_worker
from tests.pages.blocks import BLOCKS, ROOT, Block
from tests.pages.programs import FRAMEWORKS, GIVEN, Names, nothing_more, parts_that_run, promised_lines, run_program
from tests.pages.reader import Reader

pytestmark = pytest.mark.xdist_group("pages")
PYTHON = [block for block in BLOCKS if block.language == "python"]
PAGES = sorted({block.page for block in PYTHON})
DAY = re.compile(r"\(\d{4}-\d\d-\d\d\)")
"""The day at the end of a bullet: that of the run is another one than the page's."""


@pytest.fixture
async def programmer(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reader]:
    """Yield a reader in whose environment the programs run, with scripted models and a worker."""
    async with fake_chat(*["On Thursday."] * 3) as model, fake_claude("On Thursday.") as claude:
        models = {"OPENAI_BASE_URL": model.base_url, "ANTHROPIC_BASE_URL": claude.base_url}
        for name, value in (reader.environment | models).items():
            monkeypatch.setenv(name, value)
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.setenv(name, "none")
        reader.values |= {'model="…"': 'model="scripted"', '"openai:gpt-4o"': '"openai-chat:gpt-4o"'}
        async with index_worker(reader.app, reader.caller):
            yield reader


def output_of(block: Block) -> str | None:
    """Return what a program prints: the text block behind it."""
    if not re.search(r"\bprint\(", block.text):
        return None
    later = [other for other in BLOCKS if (other.page, other.number) == (block.page, block.number + 1)]
    return later[0].text if later and later[0].language == "text" else None


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainDeprecationWarning")
@pytest.mark.filterwarnings("ignore:Resolved model mismatch")  # of AutoGen, about the scripted model
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # short programs leave a framework's client open
@pytest.mark.parametrize("page", PAGES)
async def test_the_programs_of_a_page_run(page: str, programmer: Reader) -> None:
    names: Names = {}
    async with AsyncExitStack() as stack:
        for block in PYTHON:
            if block.page != page or not runs(block):
                continue
            given = await GIVEN.get(str(block), nothing_more)(programmer, stack)
            names |= given
            printed = await run_program(block, programmer.fill_in(parts_that_run(block)), names)
            if output := output_of(block):
                assert DAY.sub("(day)", printed) == DAY.sub("(day)", output)
            assert [line for line in promised_lines(block) if line not in printed.splitlines()] == []
            if "builder" in given:
                await check_graph(names.pop("graph"))
    names.clear()
    gc.collect()  # what is open is closed here, not in another test


async def check_graph(graph: Any) -> None:
    """A graph keeps its state in Mnema."""
    kept = {"configurable": {"thread_id": "page"}}
    await graph.ainvoke({"done": []}, kept)
    assert (await graph.aget_state(kept)).values == {"done": ["work"]}
    for place in (graph.checkpointer, graph.store):
        if place:
            await place.aclose()


def runs(block: Block) -> bool:
    """Tell whether a block's framework is installed. Otherwise check its grammar, and what it imports of ours."""
    if str(block) not in FRAMEWORKS or find_spec(FRAMEWORKS[str(block)]):
        return True
    tree = compile(block.text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
    ours = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mnema_client")
    ]
    for node in ours:
        path = ROOT / "sdk" / (node.module or "").replace(".", "/")
        source = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        text = source.read_text(encoding="utf-8")
        assert [alias.name for alias in node.names if alias.name not in text] == []
    return False


def test_every_program_is_given_what_it_needs() -> None:
    assert sorted({*GIVEN, *FRAMEWORKS}) == sorted(map(str, PYTHON))
