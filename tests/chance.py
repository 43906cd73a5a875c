"""Where random tries begin."""

from __future__ import annotations

import os


def new_seed() -> int:
    """Another one each time, but in CI always the same: a change is judged by what it changed."""
    return 1000 if "CI" in os.environ else int.from_bytes(os.urandom(4))
