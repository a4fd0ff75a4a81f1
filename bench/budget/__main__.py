"""Print the CPU budget of a request: `python -m bench.budget query write`.

Each kind is a module of this package with `measure_parts`, which makes what it needs and removes it.
"""

import argparse
from importlib import import_module
from typing import Final

from bench.budget.table import render_table

KINDS: Final = ("query", "write")


def main() -> None:
    """Measure the kinds and print a table for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.budget", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="kind", help=f"{', '.join(KINDS)}; default: all")
    parser.add_argument("--memories", type=int, default=3000)
    parser.add_argument("--users", type=int, default=10)
    chosen = parser.parse_args()
    if unknown := set(chosen.kinds) - set(KINDS):
        parser.error(f"unknown kind {min(unknown)!r}; use: {', '.join(KINDS)}")
    for kind in chosen.kinds or KINDS:
        parts = import_module(f"bench.budget.{kind}").measure_parts(chosen.memories, chosen.users)
        print(render_table(f"A {kind} at 8 clients", parts), flush=True)


if __name__ == "__main__":
    main()
