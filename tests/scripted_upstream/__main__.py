"""The upstream by hand: `python -m tests.scripted_upstream --port 8088 --log /tmp/requests.jsonl`."""

import argparse
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from tests.scripted_upstream.faults import Fault
from tests.scripted_upstream.server import ScriptedUpstream, routes_of


def main() -> None:
    """Serve until interrupted."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=8088)
    options.add_argument("--log", type=Path, help="append each request to this file, a line of JSON")
    options.add_argument("--fault", choices=[fault.name for fault in Fault], default="NONE", help="what requests meet")
    options.add_argument("--pause", type=float, default=0.0, help="seconds after each event of a stream")
    given = options.parse_args()
    upstream = ScriptedUpstream(always=Fault[given.fault], pause_s=given.pause, log_file=given.log)
    print(f"http://127.0.0.1:{given.port}/v1", flush=True)
    uvicorn.run(Starlette(routes=routes_of(upstream)), host="127.0.0.1", port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
