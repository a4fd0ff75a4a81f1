"""Mnema."""

import atexit
import gc
import os

# Matrices here are small: BLAS threads would only spin beside the event loop. Read when numpy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Net new objects that start a garbage collection. Python's default of 700 is reached within one request, whose objects
# nearly all go away with it, and hundreds of times while a process imports what it needs. With this threshold, a server
# starts and ends in 0.6 of the CPU. A collection of so many objects takes under a millisecond.
gc.set_threshold(10_000, 10, 10)
# The last collection would search all objects of a process that ends anyway.
atexit.register(gc.freeze)
