"""A receiver of webhooks on loopback that answers, refuses, hangs or resets as a test says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

HANGS = 0
RESETS = -1


@dataclass
class Message:
    """A message as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """A receiver. `answers`: the statuses of its next answers; the last one stays. HANGS and RESETS are no answers."""

    url: str = ""
    answers: list[int] = field(default_factory=lambda: [204])
    messages: list[Message] = field(default_factory=list)
    taken: list[Message] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one message and answer it."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            message = Message(head[0].split(" ")[1], headers, body)
            self.messages.append(message)
            status = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if status == HANGS:
                await asyncio.sleep(3600)
            if status == RESETS:
                writer.transport.abort()
                return
            if 200 <= status < 300:
                self.taken.append(message)
            more = "location: /elsewhere\r\n" if status == 302 else ""
            writer.write(f"HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n{more}\r\n".encode())
            await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def open_receiver(*answers: int) -> AsyncIterator[Receiver]:
    """Open a receiver."""
    receiver = Receiver(answers=list(answers) or [204])
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(task := asyncio.ensure_future(receiver.handle(reader, writer)))
        await asyncio.wait({task})

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
