"""The examples of docs/evaluation.md, and the data that they use."""

import re
from pathlib import Path

from tests.pages.blocks import blocks_of

OWN = Path(__file__).with_name("own.jsonl")
PAGE = "docs/evaluation.md"


def example(number: int) -> tuple[list[str], list[str]]:
    """Return the options of an example of the page, and the lines that it shows."""
    *_, command, output = re.split(r"^\$ ([^\n]*)\n", blocks_of(PAGE, "console")[number].text, flags=re.MULTILINE)
    return command.split("own.jsonl ")[1].split(), firm_lines(output)


def missing_lines(printed: str, shown: list[str]) -> list[str]:
    """Return the lines of an example that a run does not print. An ellipsis stands for others."""
    return [line for line in shown if line != "…" and line not in firm_lines(printed)]


def firm_lines(text: str) -> list[str]:
    """Return the lines of an output without its times, and with one blank between words."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip() and " ms, " not in line]
