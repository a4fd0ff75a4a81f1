"""The relations that the product makes among a realistic user's memories, compared with labelled pairs.

    python -m bench.relations

bench/relation_pairs.jsonl has 281 pairs of memories of the user `development`: all that were near by one of several
measures. `related` says that one helps a reader of the other; a shared name alone does not.
"""

import asyncio
import json
from pathlib import Path
from typing import Final

import asyncpg

from app.bootstrap import Doubles, build_application
from bench import throwaway
from bench.answers import store_user
from bench.realistic_users import load_user
from bench.stale_pairs import Tally
from bench.throwaway import MovableClock

PAIRS_FILE: Final = Path(__file__).with_name("relation_pairs.jsonl")
USER: Final = "development"


async def measure_relations(site: throwaway.Site) -> tuple[Tally, int]:
    """Store the user and compare the relations with the labels. Return also the number of relations without a label."""
    clock = MovableClock()
    user = load_user(USER)
    async with build_application(site.home.server_settings(site.cluster), Doubles(clock=clock)) as app:
        scope = await app.tenancy.tenants.authenticate(site.key)
        assert scope is not None
        keys = await store_user(app, scope, user, clock)
    connection = await asyncpg.connect(site.superuser_url)
    rows = await connection.fetch("SELECT from_id::uuid AS newer, to_id::uuid AS older FROM relations")
    await connection.close()
    found = {frozenset((a, b)) for row in rows for a in keys[row["older"]] for b in keys[row["newer"]]}
    lines = map(json.loads, PAIRS_FILE.read_text(encoding="utf-8").splitlines())
    labels = {frozenset((line["older"], line["newer"])): line["related"] for line in lines}
    right = {pair for pair, related in labels.items() if related}
    known = found & labels.keys()
    return Tally(len(known & right), len(known - right), len(right - known)), len(found - known)


def main() -> None:
    """Print precision and recall of the relations."""
    with throwaway.open_site(0) as site:
        tally, unknown = asyncio.run(measure_relations(site))
    print(f"relations of user {USER}: {tally}, {unknown} without a label")


if __name__ == "__main__":
    main()
