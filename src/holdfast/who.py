"""Who wrote what: the devices behind the chains of a session, and the persons behind those.

A chain carries an id and no name: names are known on this machine only, its own and those that
came with what was taken from a remote. Where nothing is known the id is the name.
"""

from __future__ import annotations

from holdfast.process import device_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.home import Holdfast

_SHOWN = 8
"""How much of a chain's id tells it from the others of a session."""


def name_of(home: Holdfast, device: str) -> str:
    """What people call the device that wrote a chain."""
    return names(home).get(device) or device[:_SHOWN]


def names(home: Holdfast) -> dict[str, str]:
    """Every chain whose device has a name that is known here."""
    mine = {home.store.device: home.settings.device_name or device_name()}
    return {**home.store.remotes.names(), **mine}
