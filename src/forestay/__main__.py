"""`python -m forestay`: the program, where the folder of scripts is not on the PATH."""

from __future__ import annotations

from forestay.cli.main import entry

if __name__ == "__main__":
    entry()
