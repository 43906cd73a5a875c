"""`python -m holdfast`: the program, where the folder of scripts is not on the PATH."""

from __future__ import annotations

from holdfast.cli import entry

if __name__ == "__main__":
    entry()
