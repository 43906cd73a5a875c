"""Simulate a user at a terminal: send keys to a program and read its screen."""

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
    """Return the letters alone: gaps between words are often jumps of the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\s", "", drawn.decode(errors="replace"))


class Terminal:
    """Run a program in a new terminal; `seen` is every byte it drew."""

    def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._keys, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 150, 0, 0))
        self.seen = b""
        self._typed = 0
        self.process = subprocess.Popen(
            command, cwd=cwd, env=dict(env), stdin=terminal, stdout=terminal, stderr=terminal,
            start_new_session=True,
        )  # fmt: skip
        os.close(terminal)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        try:
            while drawn := os.read(self._keys, 65_536):
                self.seen += drawn
        except OSError:
            pass  # the program ended, which closed its side

    def type(self, text: str) -> None:
        """Type a line, and press Enter after the program had time to read it."""
        self._typed = len(self.seen)
        os.write(self._keys, text.encode())
        time.sleep(0.7)
        os.write(self._keys, b"\r")

    def wait_until(self, is_met: Callable[[], bool], what: str, seconds: float = 40) -> None:
        end = time.monotonic() + seconds
        while not is_met():
            if self.process.poll() is not None or time.monotonic() > end:
                screen = self.seen[-3000:].decode(errors="replace")
                raise AssertionError(f"{what} did not happen; the screen: {screen!r}")
            time.sleep(0.1)

    def wait_until_shown(self, text: str) -> None:
        """Wait until the text was drawn after the last keys, and the screen is idle."""
        letters = "".join(text.split())
        self.wait_until(lambda: letters in _plain(self.seen[self._typed :]), repr(text))
        self.wait_until_idle()

    def wait_until_idle(self) -> None:
        """Wait until nothing was drawn for a second."""
        before = -1
        while before != len(self.seen):
            before = len(self.seen)
            time.sleep(1)

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        os.close(self._keys)
