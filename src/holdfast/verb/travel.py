"""The verbs by which sessions travel between devices: a home has them all.

Each delegates to the module that knows how: nothing of it is loaded until it is asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.home import Holdfast


class TravelVerbs:
    """What a home can do with devices elsewhere; `Holdfast` inherits it."""

    @property
    def _home(self) -> Holdfast:
        """This object, as the home that it is part of."""
        from holdfast.home import Holdfast

        if not isinstance(self, Holdfast):
            raise TypeError("these are verbs of a home")
        return self

    def device(self, id: str) -> str:
        """What people call the device that wrote a chain; the id itself where nobody told."""
        from holdfast.who import name_of

        return name_of(self._home, id)
