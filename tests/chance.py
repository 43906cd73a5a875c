"""Choose the seeds of random tests."""

from __future__ import annotations

import os


def new_seed() -> int:
    """Return a random seed, but a constant in CI, so that only the change affects the result."""
    return 1000 if "CI" in os.environ else int.from_bytes(os.urandom(4))
