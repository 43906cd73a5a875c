"""How far a transfer has come: a bar, events of all that will move, and bytes that did.

What moves is told from several threads at once. How much will move is known in events before a
pack is made or read, in bytes only afterwards; so the bar counts events.
"""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.screen import Screen

_ARROWS = {"up": "↑", "down": "↓"}
_UNITS = ("B", "kB", "MB", "GB")
_WIDTH = 20


class Bar:
    """What `on_bytes` of a push or pull may be given; shown on a terminal, and gone at the end."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._lock = screen, threading.Lock()
        self._bytes = dict.fromkeys(_ARROWS, 0)
        self._done, self._planned = dict(self._bytes), dict(self._bytes)

    def __call__(self, way: str, size: int) -> None:
        self._add(self._bytes, way, size)

    def expect(self, way: str, events: int) -> None:
        """So many events will move, besides those that were told before."""
        self._add(self._planned, way, events)

    def done(self, way: str, events: int) -> None:
        """So many of them have."""
        self._add(self._done, way, events)

    def end(self) -> None:
        if any(self._bytes.values()) or any(self._planned.values()):
            self._screen.progress()

    def _add(self, to: dict[str, int], way: str, count: int) -> None:
        with self._lock:
            to[way] += count
            ways = [way for way in _ARROWS if self._bytes[way] or self._planned[way]]
            self._screen.progress("   ".join(map(self._told, ways)))

    def _told(self, way: str) -> str:
        planned, moved = self._planned[way], size_of(self._bytes[way])
        if not planned:
            return f"{_ARROWS[way]} {moved}"
        done = min(self._done[way], planned)
        full = _WIDTH * done // planned
        bar = "█" * full + "·" * (_WIDTH - full)
        return f"{_ARROWS[way]} {bar} {done} of {planned} events, {moved}"


def size_of(count: float) -> str:
    """Bytes in a unit that fits."""
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
