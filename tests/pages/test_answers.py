"""The calls of the pages, sent to a real server: they are answered, and the answers look as the pages say."""

import fnmatch
import re

import httpx
import pytest

from tests.cli.in_process import mnema
from tests.cli.pages import line_pattern, split_examples
from tests.index_worker import index_worker
from tests.pages.blocks import BLOCKS, blocks_of, shell_commands, simple_commands
from tests.pages.commands import parse_curl
from tests.pages.reader import PREPARATIONS, Reader

pytestmark = pytest.mark.xdist_group("pages")
CALLED = sorted({block.page for block in BLOCKS if block.language == "sh" and "curl" in block.text})
CHANGING = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){0,4}(-[0-9a-f]{12})?|\d{4}-\d\d-\d\dT[\d:.]+Z?|\d+\.\d+")
"""Ids, times and scores."""


def answer_pattern(printed: str) -> str:
    """Return the pattern of `fnmatch` for an answer without blanks. `…` and `CHANGING` stand for any text."""
    return line_pattern(squeeze(CHANGING.sub("…", printed)))


def squeeze(answer: str) -> str:
    """Return an answer without blanks, and without the signs of line breaks within its texts."""
    return "".join(answer.replace("\\n", "").split())


async def send(words: list[str], reader: Reader) -> list[httpx.Response]:
    """Send a call of curl; return an answer for each address."""
    method, urls, headers, body = parse_curl(words[1:], reader.fill_in)
    async with httpx.AsyncClient(timeout=30) as client:
        return [await client.request(method, url, headers=headers, content=body) for url in urls]


async def check_call(words: list[str], printed: list[str], reader: Reader) -> None:
    """Send a call; the answer is that of the page. A page that shows none has an answer without an error."""
    [response] = await send(words, reader)
    answer = squeeze(response.text)
    if printed:
        assert fnmatch.fnmatchcase(answer, answer_pattern("".join(printed))), (words, answer)
    else:
        assert response.status_code == 200, (words, answer)


async def check_mnema(words: list[str], printed: list[str], reader: Reader) -> None:
    """Run a command of `mnema`; it prints what the page shows, if the page shows something."""
    given = [reader.values.get(word, word) for word in words[1:]]
    result = await mnema(*given, **reader.environment)
    lines = result.output.splitlines()
    assert result.exit_code == 0, (words, lines)
    assert not printed or len(lines) == len(printed), (words, lines)
    for line, pattern in zip(lines, printed, strict=False):
        assert fnmatch.fnmatchcase(line, line_pattern(pattern)), (words, line)


@pytest.mark.long
@pytest.mark.parametrize("page", PREPARATIONS)
async def test_the_console_shows_what_the_server_answers(
    page: str, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(reader.home)
    await PREPARATIONS[page](reader)
    commands = [example for block in blocks_of(page, "console") for example in split_examples(block.text)]
    assert commands
    async with index_worker(reader.app, reader.caller):
        for command, printed in commands:
            for words in simple_commands(command):
                if words[0] == "curl":
                    await check_call(words, printed, reader)
                elif words[0] == ".venv/bin/mnema" and "--watch" not in words:  # which never ends
                    await check_mnema(words, printed, reader)


@pytest.mark.parametrize("page", CALLED)
async def test_the_server_takes_each_call(page: str, reader: Reader) -> None:
    calls = [
        words
        for block in blocks_of(page, "sh")
        for command in shell_commands(block.text)
        for words in simple_commands(command)
        if words[0] == "curl"
    ]
    assert calls
    for words in calls:
        for response in await send(words, reader):
            assert response.status_code < 300, (words, response.text)
