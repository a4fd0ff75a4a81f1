"""Tests that the documents name only what exists, and that they name every folder and capability."""

import re
from pathlib import Path

import pytest

from tests.architecture import documents
from tests.architecture.documents import Check, Document

ROOT = Path(__file__).resolve().parents[2]
CHECKS: list[Check] = [
    documents.missing_paths,
    documents.broken_links,
    documents.unclear_fences,
    documents.absent_citations,
    documents.long_readme,
]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "sdk*/*.md", "bench/**/*.md")
    for path in ROOT.glob(pattern)
)


def read_page(path: str) -> Document:
    return Document(ROOT, path, (ROOT / path).read_text(encoding="utf-8"))


def folders_in(path: Path) -> list[str]:
    """The folders of the repository, without what tools or a reader of the README's tour make."""
    made = ("__pycache__", "build", "dist", "manuals", "notes")
    return [f.name for f in path.iterdir() if f.is_dir() and f.name[0] != "." and not f.name.endswith((*made, "-info"))]


@pytest.mark.long
@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
def test_the_documents_keep_the_rule(check: Check) -> None:
    offences = [offence for path in PAGES for offence in check(read_page(path))]
    assert not offences, "\n" + "\n".join(offences)


def test_the_pages_are_found() -> None:
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md", "docs/contract.md"} <= set(PAGES)


def test_every_folder_is_named() -> None:
    table = read_page("README.md").text.partition("## Where things are")[2]
    map_of_code = read_page("docs/architecture.md").text
    assert [f for f in folders_in(ROOT) if not documents.names_folder(table, f)] == []
    named = [f"app/{name}" for name in folders_in(ROOT / "app")]
    assert [f for f in named if not documents.names_folder(table + map_of_code, f)] == []


def test_every_page_is_linked() -> None:
    linked = "".join(read_page(path).text for path in ("README.md", "CONTRIBUTING.md"))
    pages = [path for path in PAGES if path.startswith("docs/") and not path.startswith("docs/adr/")]
    assert [path for path in pages if f"({path}" not in linked] == []


def test_every_page_is_in_the_site() -> None:
    named = re.findall(r"^ *- (?:[\w ]+: )?(\S+\.md)$", read_page("docs/mkdocs.yml").text, re.MULTILINE)
    assert sorted(named) == PAGES


def test_every_capability_is_in_the_map() -> None:
    rows = read_page("docs/architecture.md").text.partition("## Capabilities")[2].partition("## A write")[0]
    found = {name for layer in ("domain", "usecases", "storage") for name in folders_in(ROOT / "app" / layer)}
    assert [name for name in sorted(found - {"tables"}) if f"\n| {name} |" not in rows] == []


BREAKS: list[tuple[Check, str, int]] = [
    (documents.missing_paths, "Look into `app/nowhere/at_all.py`.", 1),
    (documents.missing_paths, "See `app/<layer>/nowhere/x.py` and app/ports.py.", 1),
    (documents.missing_paths, "`app/ports.py::Nobody` and `app/ports.py::Clock.nothing`", 2),
    (documents.missing_paths, "`python -m bench.nothing`", 1),
    (documents.broken_links, "[a](nowhere.md) and [b](docs/contract.md#nowhere) and [c](#nowhere)", 3),
    (documents.unclear_fences, "```\nx\n```\n\n  ```sh\n  x\n  ```\n", 3),
    (documents.absent_citations, "as seed 003 §6, the SPEC and DESIGN §1 say", 3),
    (documents.long_readme, "line\n" * 151, 1),
]


@pytest.mark.parametrize(("check", "text", "count"), BREAKS)
def test_the_check_reports_a_page_that_breaks_the_rule(check: Check, text: str, count: int) -> None:
    assert len(check(Document(ROOT, "README.md", text))) == count


def test_the_checks_let_pass_what_is_right() -> None:
    text = """# A page
`app/ports.py::Clock.now`, `app/<layer>/<capability>/` and /app/elsewhere; `python -m bench.write_path`; seed002
[link](docs/contract.md#delta-header), [here](#where-things-are), [web](https://example.org/x.md#y)"""
    page = Document(ROOT, "README.md", text)
    assert [check(page) for check in CHECKS] == [[]] * len(CHECKS)


def test_every_check_is_shown_to_fail() -> None:
    assert {check for check, _, _ in BREAKS} == set(CHECKS)
