"""Loading of hot SQL statements. They live in files, each named and described, ready to paste into EXPLAIN."""

import re
from functools import cache
from importlib.resources import files


@cache
def load_statements(file: str, **parts: str) -> dict[str, str]:
    """Return the statements of one `.sql` file by the name in their `-- name:` line, with each `{part}` filled in."""
    script = files("app.storage").joinpath(file).read_text(encoding="utf-8")
    for part, text in parts.items():
        script = script.replace(f"{{{part}}}", text)
    split = re.split(r"^-- name: (\w+)\n", script, flags=re.MULTILINE)[1:]
    return {name: body.strip() for name, body in zip(split[::2], split[1::2], strict=True)}
