"""The version of the program, in one place for everything that states it."""

from __future__ import annotations

__version__ = "0.1.0"
