"""Run every installed client against a scripted upstream, directly and through Mnema, and compare."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.chat_clients.differences import compare_answers, compare_bodies, strip_memories
from tests.scripted_upstream import Received, ScriptedUpstream, scripted_upstream

HERE = Path(__file__).parent
PYTHON_CLIENTS = {
    "with_openai": "openai",
    "with_openai_responses": "openai",
    "with_openai_agents": "agents",
    "with_anthropic": "anthropic",
    "with_pydantic_ai": "pydantic_ai.models.openai",
    "with_langchain": "langchain_openai",
    "with_langchain_responses": "langchain_openai",
    "with_llamaindex": "llama_index.llms.openai_like",
}
NODE_CLIENTS = {
    "with_openai.mjs": ["openai"],
    "with_openai_responses.mjs": ["openai"],
    "with_anthropic.mjs": ["@anthropic-ai/sdk"],
    "with_ai_sdk.mjs": ["ai", "@ai-sdk/openai-compatible"],
    "with_ai_sdk.mjs responses": ["ai", "@ai-sdk/openai"],
    "with_ai_sdk.mjs messages": ["ai", "@ai-sdk/anthropic"],
}
"""The packages of each driver. A word behind its name is its third argument."""


class Failed(Exception):
    """A driver ended with an error; the text is the end of what it said."""


@dataclass(frozen=True)
class Client:
    """A driver and how to run it. `command` is empty for a client that is not installed."""

    name: str
    command: Sequence[str]
    folder: Path = HERE.parents[1]
    options: Sequence[str] = ()


@dataclass(frozen=True)
class Run:
    """The requests of a driver as they arrived upstream, and what the driver printed."""

    requests: list[Received]
    answers: Any

    def save(self, stem: Path) -> None:
        """Write both to files whose names begin with `stem`."""
        rows = [json.dumps(received.row, ensure_ascii=False) for received in self.requests]
        answers = json.dumps(self.answers, ensure_ascii=False, indent=1)
        stem.with_name(f"{stem.name}.requests.jsonl").write_text("\n".join([*rows, ""]), encoding="utf-8")
        stem.with_name(f"{stem.name}.answers.json").write_text(answers, encoding="utf-8")


async def find_clients(pythons: Sequence[str], node_folder: Path) -> list[Client]:
    """Return all clients, each with the first interpreter that has its package."""
    found = []
    for name, module in PYTHON_CLIENTS.items():
        having = [python for python in pythons if await _succeeds(python, "-c", f"import {module}")]
        found.append(Client(name, [having[0], "-m", f"bench.chat_clients.{name}"] if having else []))
    for name, packages in NODE_CLIENTS.items():
        installed = all((node_folder / "node_modules" / package).is_dir() for package in packages)
        driver, _, api = name.partition(" ")
        command = ["node", str(HERE / driver)] if installed else []
        found.append(Client(name.replace(" ", "_"), command, node_folder, [api] if api else []))
    return found


async def _succeeds(*command: str) -> bool:
    quiet = asyncio.subprocess.DEVNULL
    started = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
    return await started.wait() == 0


async def run_client(client: Client, upstream: ScriptedUpstream, base_url: str, key: str) -> Run:
    """Run a driver at `base_url` and return what arrived upstream; raise Failed."""
    upstream.log.clear()
    # A driver in another environment finds this repository's packages here.
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1])}
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        *client.command,
        base_url,
        key,
        *client.options,
        stdout=pipe,
        stderr=pipe,
        cwd=client.folder,
        env=environment,
    )
    printed, said = await started.communicate()
    if started.returncode:
        raise Failed(said.decode(errors="replace")[-2000:])
    return Run(list(upstream.log), json.loads(printed))


async def compare_client(client: Client, upstream: ScriptedUpstream, given: argparse.Namespace) -> list[str]:
    """Run a driver both ways, save both, and return the differences."""
    direct = await run_client(client, upstream, upstream.base_url, "direct")
    direct.save(given.out / f"{client.name}.direct")
    if not given.mnema:
        print(f"{client.name}: {len(direct.requests)} requests recorded")
        return []
    proxied = await run_client(client, upstream, given.mnema, given.key)
    proxied.save(given.out / f"{client.name}.mnema")
    # Without a body is a request for the list of models, which Mnema sends to both upstreams.
    bodies = [[one.body for one in run.requests if one.body] for run in (direct, proxied)]
    found = list(compare_bodies(bodies[0], bodies[1]))
    found += compare_answers(direct.answers, proxied.answers)
    different = sum(one != other for one, other in zip(bodies[0], bodies[1], strict=False))
    leaking = [number for number, one in enumerate(proxied.requests) if leaks(one, given.key)]
    found += [f"Mnema's key is in the requests {leaking}"] if leaking else []
    print(f"{client.name}: {len(bodies[0])} requests, {different} with memories, {len(found)} differences")
    return found


def leaks(received: Received, key: str) -> bool:
    """Return True if the key is anywhere in the request."""
    return any(key in text for text in (received.body.decode(errors="replace"), received.query, repr(received.headers)))


async def compare_all(given: argparse.Namespace) -> int:
    """Compare every client; return the number of differences and failures."""
    given.out.mkdir(parents=True, exist_ok=True)
    wrong = 0
    async with scripted_upstream(port=given.port) as upstream:
        upstream.reading = strip_memories
        for client in await find_clients(given.python or [sys.executable], given.node):
            if not client.command:
                print(f"{client.name}: skipped, not installed")
                continue
            try:
                found = await compare_client(client, upstream, given)
            except Failed as error:
                found = [f"failed: {error}"]
            print("".join(f"  {line}\n" for line in found), end="")
            wrong += len(found)
    return wrong


def main() -> int:
    """Read the options and compare."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--mnema", metavar="URL", help="Mnema's base URL with /v1; without it, only record")
    options.add_argument("--key", default="", help="a key of Mnema with the scope chat")
    options.add_argument("--port", type=int, default=8088, help="the upstream's port, which Mnema's upstream names")
    options.add_argument("--python", action="append", help="an interpreter to look for clients in; may be repeated")
    options.add_argument("--node", type=Path, default=Path(), help="the folder of node_modules")
    options.add_argument("--out", type=Path, default=Path("chat_clients_recorded"), help="the folder of the records")
    return 1 if asyncio.run(compare_all(options.parse_args())) else 0


if __name__ == "__main__":
    sys.exit(main())
