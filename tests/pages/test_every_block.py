"""Every code block of the pages is run by a test, or named here with the reason why none runs it."""

import re

import pytest

from tests.pages.blocks import BLOCKS, ROOT, Block
from tests.pages.programs import FRAMEWORKS, GIVEN
from tests.pages.reader import PREPARATIONS

DATA = "tests/pages/test_data.py"
JAVASCRIPT = "tests/sdk_js/test_package.py"
EVALUATION = "tests/cli/evaluation/test_command.py"
HELD: dict[str, str] = {
    "README.md 1": "tests/domain/recall/test_delta_header.py",
    "docs/changes.md 2": "tests/api/webhooks/test_webhooks.py",
    "docs/chat.md 3": DATA,
    "docs/chat.md 4": DATA,
    "docs/chat.md 5": DATA,
    "docs/configuration.md 2": DATA,
    "docs/contract.md 1": "tests/domain/recall/test_delta_header.py",
    "docs/evaluation.md 1": EVALUATION,
    "docs/evaluation.md 2": EVALUATION,
    "docs/evaluation.md 3": EVALUATION,
    "docs/evaluation.md 4": "tests/cli/evaluation/test_resumed.py",
    "docs/filters.md 1": "tests/domain/where/test_parsing.py",
    "docs/javascript.md 1": JAVASCRIPT,
    "docs/javascript.md 2": JAVASCRIPT,
    "docs/javascript.md 4": JAVASCRIPT,
    "docs/mcp.md 1": DATA,
    "docs/mcp.md 2": DATA,
    "docs/mcp.md 3": DATA,
    "docs/mcp.md 4": DATA,
    "docs/mcp.md 5": DATA,
    "docs/mcp.md 6": DATA,
    "docs/mcp.md 7": DATA,
    "docs/mcp.md 8": DATA,
    "docs/mcp.md 9": DATA,
    "docs/mirror.md 1": "tests/cli/mirror/test_document.py",
    "docs/operations.md 3": "tests/acceptance/test_proxy_drill.py",
    "docs/operations.md 4": "tests/pages/test_tls.py",
    "docs/pgbouncer.md 1": "tests/pgbouncer.py",
    "docs/scaling.md 1": "tests/clusters/test_joining.py",
    "docs/sources.md 1": "tests/cli/sources/test_document.py",
    "docs/tenant-rules.md 1": DATA,
    "docs/time.md 1": "tests/domain/memory/test_picture_of_states.py",
    "docs/turn-memory.md 4": "tests/sdk/turn_memory/test_example.py",
    "sdk-js/README.md 1": JAVASCRIPT,
}
"""The test of each block that no rule for its language covers. The test names the block, its page or its lines."""
NOT_RUN: dict[str, str] = {
    "docs/architecture.md 1": "a picture of the layers; the import contracts hold it",
    "docs/chat.md 2": "JavaScript with two packages from npm; bench/chat_clients drives both with these options",
    "docs/javascript.md 3": "needs a provider and its key; the tests of sdk-js give the middleware scripted models",
    "docs/mirror.md 2": "a picture of a folder; tests/cli/mirror/test_document.py writes one",
}


def covered_by_rule(block: Block) -> bool:
    """Tell whether a test runs all blocks like this one: programs and their output, shell blocks, console pages."""
    if block.language == "text":
        before = [other for other in BLOCKS if (other.page, other.number) == (block.page, block.number - 1)]
        return bool(before) and re.search(r"\bprint\(", before[0].text) is not None
    return (
        str(block) in GIVEN
        or str(block) in FRAMEWORKS
        or block.language == "sh"
        or (block.language == "console" and block.page in PREPARATIONS)
    )


def test_every_block_has_its_test_or_its_reason() -> None:
    named = [*HELD, *NOT_RUN]
    assert sorted(named) == sorted(str(block) for block in BLOCKS if not covered_by_rule(block))
    assert len(BLOCKS) > 60


@pytest.mark.parametrize(("name", "test"), HELD.items(), ids=list(HELD))
def test_the_test_of_a_block_names_it(name: str, test: str) -> None:
    [block] = [block for block in BLOCKS if str(block) == name]
    source = (ROOT / test).read_text(encoding="utf-8")
    file = block.page.rpartition("/")[2]
    assert name in source or file in source or all(line in source for line in block.text.splitlines())
