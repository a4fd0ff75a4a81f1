"""Limits that a parser's process puts on itself before it reads a document."""

import ctypes
import math
import os
import resource
import signal
import sys
from typing import Final

from app.domain.sources.policy import ParsingPolicy

OPEN_FILES: Final = 32
PR_SET_PDEATHSIG: Final = 1
GRACE_S: Final = 2.0
"""The time after its limit at which the process ends itself if the service has not ended it."""


def confine_process(parent: int) -> None:
    """Forbid files, core dumps and, unless the user is root, processes; end with the service, whose pid is `parent`."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the service has ended")


def start_limits(policy: ParsingPolicy) -> None:
    """Limit the memory, CPU time and wall-clock time of one document. Beyond a time, the kernel ends the process."""
    if sys.platform != "darwin":  # macOS has no limit of address space
        resource.setrlimit(resource.RLIMIT_AS, (policy.max_memory_bytes, resource.RLIM_INFINITY))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = math.ceil(usage.ru_utime + usage.ru_stime + policy.max_seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, policy.max_seconds + GRACE_S)


def stop_limits() -> None:
    """Stop the timer, because the process now waits for the next document."""
    signal.setitimer(signal.ITIMER_REAL, 0)
