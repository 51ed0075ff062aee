"""numpy, with one thread for its products of matrices.

Its library would start a thread a core, and they wait for each other by spinning: on a machine that does something
else too, ten times slower than one thread alone. It asks the environment once, when it is loaded.
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
        del os.environ[_NAME]  # programs that we start are to decide for themselves

__all__ = ["np"]
