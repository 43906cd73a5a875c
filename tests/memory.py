"""Find a folder in memory, where tests write without a disk."""

from __future__ import annotations

import os

_PLACE = "/dev/shm"


def memory_folder(least: int = 1 << 31) -> str | None:
    """Return a folder in memory with at least `least` free bytes, or None."""
    try:
        facts = os.statvfs(_PLACE)
    except OSError:
        return None
    room = facts.f_bavail * facts.f_frsize
    return _PLACE if room > least and os.access(_PLACE, os.W_OK) else None
