"""numpy, limited to one thread for matrix products.

OpenBLAS would start one thread per core, and they wait for each other by spinning: on a busy machine that is ten times
slower than a single thread. It reads the environment once, when it is loaded.
"""

from __future__ import annotations

import os

_NAME = "OPENBLAS_NUM_THREADS"
_before = os.environ.get(_NAME)
os.environ[_NAME] = _before or "1"
try:
    import numpy as np
finally:
    if _before is None:
        del os.environ[_NAME]  # must not leak into programs that we start

__all__ = ["np"]
