"""A person at a terminal, as far as an agent can tell: keys go in, a screen comes out."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def _plain(drawn: bytes) -> str:
    """The letters alone: gaps between words are often jumps of the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\s", "", drawn.decode(errors="replace"))


class Terminal:
    """A program on a screen of its own; `seen` is every byte it drew."""

    def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._keys, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 150, 0, 0))
        self.seen = b""
        self._typed = 0
        self.process = subprocess.Popen(
            command, cwd=cwd, env=dict(env), stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        try:
            while drawn := os.read(self._keys, 65_536):
                self.seen += drawn
        except OSError:
            pass  # the program is gone, and its side of the line with it

    def type(self, text: str) -> None:
        """Type a line, and Enter once the program has taken the letters in."""
        self._typed = len(self.seen)
        os.write(self._keys, text.encode())
        time.sleep(0.7)
        os.write(self._keys, b"\r")

    def until(self, true: Callable[[], bool], what: str, seconds: float = 40) -> None:
        end = time.monotonic() + seconds
        while not true():
            if self.process.poll() is not None or time.monotonic() > end:
                screen = self.seen[-3000:].decode(errors="replace")
                raise AssertionError(f"{what} did not happen; the screen: {screen!r}")
            time.sleep(0.1)

    def until_shown(self, text: str) -> None:
        """Return once the text was drawn after the last keys, and all else that comes with it."""
        letters = "".join(text.split())
        self.until(lambda: letters in _plain(self.seen[self._typed :]), repr(text))
        self.until_idle()

    def until_idle(self) -> None:
        """Return once nothing was drawn for a while."""
        before = -1
        while before != len(self.seen):
            before = len(self.seen)
            time.sleep(1)

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        os.close(self._keys)
