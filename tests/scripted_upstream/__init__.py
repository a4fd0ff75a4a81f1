"""A scripted OpenAI-compatible upstream on loopback: it records requests as they arrive, and fails on demand."""

from tests.scripted_upstream.faults import Fault
from tests.scripted_upstream.received import Received
from tests.scripted_upstream.server import ScriptedUpstream, scripted_upstream

__all__ = ["Fault", "Received", "ScriptedUpstream", "scripted_upstream"]
