"""The code blocks of the pages, and the lines of a shell in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cli.pages import is_whole, split_examples

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("*.md", "docs/**/*.md", "sdk*/*.md", "bench/**/*.md")
_HERE_DOCUMENT = re.compile(r"<<'(\w+)'\n.*?^\1$", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A code block: the `number`th of its page, counted from 1."""

    page: str
    number: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page} {self.number}"


def find_blocks() -> Iterator[Block]:
    """Yield the blocks of all pages, in order."""
    for page in sorted({path.relative_to(ROOT).as_posix() for pattern in PAGES for path in ROOT.glob(pattern)}):
        text = (ROOT / page).read_text(encoding="utf-8")
        for number, match in enumerate(_BLOCK.finditer(text), 1):
            dedented = re.sub(f"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
            yield Block(page, number, match["language"], dedented)


BLOCKS = list(find_blocks())


def blocks_of(page: str, language: str) -> list[Block]:
    """Return the blocks of a page in one language."""
    return [block for block in BLOCKS if (block.page, block.language) == (page, language)]


def shell_commands(text: str) -> list[str]:
    """Return the commands of a shell block, without what they print and without here-documents."""
    text = _HERE_DOCUMENT.sub("", text)
    if text.startswith("$ "):
        return [command for command, _ in split_examples(text)]
    found = [""]
    for line in text.replace("\\\n", "").splitlines():
        found[-1] += line
        if is_whole(found[-1]):
            found.append("")
        else:
            found[-1] += "\n"
    return [command for command in found if command.strip()]


def simple_commands(command: str) -> list[list[str]]:
    """Return the words of each simple command of a line, as `a && b | c` has three, without redirections."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";|&<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    found: list[list[str]] = [[]]
    for word in lexer:
        if word in (";", "|", "&&", "||"):
            found.append([])
        elif word in ("<", ">", ">>"):
            next(lexer)
        else:
            found[-1].append(word)
    return [words for words in found if words]
