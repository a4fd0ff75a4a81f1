"""The place of a process among the workers of one `mnema serve --workers N`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ServerWorker:
    """One of `count` processes that serve one address.

    `number` is 1 to `count`; a process that replaces another one has its number and a higher `serial`. All of them
    share `folder`, which only their user may enter.
    """

    number: int
    serial: int
    count: int
    folder: str

    @property
    def metrics_socket(self) -> Path:
        """The socket where this process tells the others its metrics."""
        return Path(self.folder) / f"{self.number}-{self.serial}.metrics"

    @property
    def counters_file(self) -> Path:
        """The file with the counters that all of them share."""
        return Path(self.folder) / "counters"

    def encode(self) -> str:
        """Return this place as an argument of a command."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, argument: str) -> "ServerWorker":
        """Return the place that `encode` wrote."""
        return cls(**json.loads(argument))
