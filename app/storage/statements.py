"""Loading of hot SQL statements. They live in files, each named and described, ready to paste into EXPLAIN."""

import re
from functools import cache
from importlib.resources import files


@cache
def load_statements(file: str) -> dict[str, str]:
    """Return the statements of one `.sql` file by the name in their `-- name:` line."""
    script = files("app.storage").joinpath(file).read_text(encoding="utf-8")
    parts = re.split(r"^-- name: (\w+)\n", script, flags=re.MULTILINE)[1:]
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
