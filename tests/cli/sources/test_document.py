"""The commands of docs/sources.md, run as they are written: they print what the page says."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.pages import check_page

pytestmark = pytest.mark.usefixtures("own")


@pytest.mark.long
async def test_the_commands_of_the_page_print_what_it_says(env: dict[str, Any], worker: None, tmp_path: Path) -> None:
    await check_page("docs/sources.md", tmp_path, env, least=8)
