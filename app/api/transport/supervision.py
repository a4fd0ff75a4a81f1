"""The worker's end of its connection to the supervisor. It reports that it is ready, and receives the order to end."""

import asyncio
import socket

READY = b"ready\n"
RETIRE = b"retire\n"


class SupervisorChannel:
    """A worker's connection to its supervisor.

    `retired` is set when other processes have taken over, `orphaned` when the supervisor has ended.
    """

    def __init__(self, descriptor: int) -> None:
        """Take over the file descriptor of a connected socket."""
        self.retired = asyncio.Event()
        self.orphaned = asyncio.Event()
        self._socket = socket.socket(fileno=descriptor)
        self._listening: asyncio.Task[None] | None = None

    async def report_ready(self) -> None:
        """Tell the supervisor that this worker serves, and listen to it from now on."""
        reader, self._writer = await asyncio.open_connection(sock=self._socket)
        self._writer.write(READY)
        self._listening = asyncio.create_task(self._listen(reader))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while order := await reader.readline():
                if order == RETIRE:
                    self.retired.set()
        except OSError:  # the supervisor was killed with an order under way
            pass
        finally:
            self.orphaned.set()
