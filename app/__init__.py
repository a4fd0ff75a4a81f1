"""Mnema."""

import os

# Matrices here are small: BLAS threads would only spin beside the event loop. Read when numpy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
