"""ONNX Runtime without its telemetry, which is on by default and sends events to its makers (docs/security.md)."""

import os


def disable_telemetry() -> None:
    """Keep ONNX Runtime from sending or storing events in this process. Call it before the library's first import.

    The library's own function for it comes too late: the import already makes an id of the machine and a first event.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
