"""The scripted model by hand: `python -m tests.fake_llm --port 8089`, then LLM_BASE_URL=http://127.0.0.1:8089/v1."""

import argparse

import uvicorn
from starlette.applications import Starlette

from tests.fake_llm.server import FakeLlm, Fault, routes


def main() -> None:
    """Serve until interrupted."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=8089)
    options.add_argument("--fault", choices=[fault.name for fault in Fault], help="what every request meets")
    given = options.parse_args()
    fake = FakeLlm(broken=Fault[given.fault] if given.fault else None)
    uvicorn.run(Starlette(routes=routes(fake)), host="127.0.0.1", port=given.port, log_level="info")
    print("\n".join(fake.wrong) or f"{len(fake.asked)} prompts, nothing wrong with them")


if __name__ == "__main__":
    main()
