"""The user's devices with their keys, and the persons with whom sessions are shared."""

from __future__ import annotations

from forestay.api.values import DeviceChange, DeviceGroupInfo, KeyInfo, SharingInfo
from forestay.journal.topics import HomeTopic
from forestay.sync import arrival, keychain, sharing
from forestay.sync.crypto.device_group import is_kept
from forestay.sync.crypto.key_text import read_device_code, read_person_key
from forestay.sync.device_names import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from forestay.base.words import ShareMode
    from forestay.journal.context import Context
    from forestay.sync.crypto import device_group
    from forestay.sync.keychain import Asking, Changed
    from forestay.sync.sharing import Shared


class Devices(HomeTopic):
    """The devices of the user, which share sessions through remotes."""

    @property
    def keys(self) -> Keys:
        """The key of this device."""
        return Keys(self._context)

    def has_keys(self) -> bool:
        """Return whether this device has keys with which sessions can be sent."""
        return is_kept(keychain.folder(self._context))

    def name_of(self, id: str) -> str:
        """Return the name of a device; its id if it has no name."""
        return name_of(self._context, id)

    def last_session(self, device: str) -> str:
        """Return the open session that was worked on last on a device, by the device's name."""
        return arrival.last_on(self._context, device)

    def list(self) -> DeviceGroupInfo:
        """Return the devices of the user, as this device knows them."""
        group, own = keychain.devices(self._context)
        devices = [
            _device_values(device) | {"this": device.key_id == own} for device in group.devices()
        ]
        return DeviceGroupInfo(
            {"circle": group.id, "fingerprint": group.fingerprint, "devices": devices}
        )

    def add(self, *, confirm: str = "", new_key: bool = False) -> Asking | DeviceChange:
        """Return a code with which this device asks to join a device group.

        After a device of that group has approved the code, call it again with the fingerprint of
        the group in `confirm`, to join. `new_key` replaces the key of this device before it asks.
        """
        if confirm:
            return _change(keychain.confirm(self._context, confirm))
        return keychain.ask(self._context, new_key=new_key)

    def approve(self, code: str) -> DeviceChange:
        """Admit the device that shows this code; the user must compare its fingerprint first."""
        return _change(keychain.approve(self._context, read_device_code(code)))

    def revoke(self, which: str) -> DeviceChange:
        """Revoke a device, by its name or id: it can read nothing written from now on."""
        done = keychain.revoke(self._context, which)
        _push_new_keys(self._context)
        return _change(done)

    def rename(self, which: str, name: str) -> DeviceChange:
        """Rename a device."""
        return _change(keychain.rename(self._context, which, name))


def _device_values(device: device_group.Device) -> dict[str, Any]:
    return {
        "key": device.key_id,
        "name": device.name,
        "active": device.active,
        "added": device.added_at,
        "revoked": device.revoked_at or None,
    }


def _change(changed: Changed) -> DeviceChange:
    group = changed.group
    return DeviceChange(
        {
            "circle": group.id,
            "fingerprint": group.fingerprint,
            "epoch": group.epoch.number,
            "device": _device_values(changed.device),
            "recovery": changed.recovery or None,
            "remotes": _deliveries(changed.spread),
        }
    )


def _deliveries(spread: Sequence[keychain.Spread]) -> list[dict[str, str | None]]:
    return [{"remote": remote, "error": error or None} for remote, error in spread]


class Keys(HomeTopic):
    """The key of this device, which encrypts what it pushes for the user's other devices."""

    def init(self, *, passphrase: str = "", keyring: bool = False) -> DeviceChange:
        """Create the key of this device and its device group, or protect an existing key.

        The result has the recovery code, which is stored nowhere: show it once.
        """
        return _change(keychain.init(self._context, passphrase=passphrase, keyring=keyring))

    def show(self) -> KeyInfo:
        """Return the public facts about this device's key, and where it is stored."""
        return KeyInfo(keychain.show(self._context))

    def export(self, path: str, passphrase: str) -> str:
        """Write the key into a new file, protected by a passphrase; return its id."""
        return keychain.export(self._context, path, passphrase)

    def import_(self, path: str) -> DeviceChange:
        """Use the key in a file from `export`; `context.ask_passphrase` returns its passphrase."""
        return _change(keychain.import_(self._context, path))

    def recover(
        self, code: str, *, agree: Callable[[device_group.DeviceGroup], object] | None = None
    ) -> DeviceChange:
        """Join the device group again with only the recovery code and a remote.

        `agree` is called with the device group before anything is written; it raises if it is not
        the expected one.
        """
        return _change(keychain.recover(self._context, code, agree))

    def rotate(self, *, recovery: bool = False) -> DeviceChange:
        """Replace the keys; with `recovery` the recovery code is replaced too."""
        done = keychain.rotate(self._context, recovery=recovery)
        _push_new_keys(self._context)
        return _change(done)


def _push_new_keys(context: Context) -> None:
    """Start a push, which encrypts sessions with new keys that a revoked device does not have."""
    context.run_due_jobs("session.forgotten")


class Shares(HomeTopic):
    """Persons who are allowed to read or continue a session of the user."""

    def add(
        self, session: str, person: str, *, mode: ShareMode | None = None, email: str = ""
    ) -> SharingInfo:
        """Allow the person with this key to read a session, or to `continue` it, on every remote.

        Compare the fingerprint of their key with them first.
        """
        key = read_person_key(person)
        return _sharing(sharing.share(self._context, session, key, mode=mode or "", email=email))

    def remove(self, session: str, who: str) -> SharingInfo:
        """Stop sharing a session with a person; they still have what they fetched before."""
        return _sharing(sharing.unshare(self._context, session, who))

    def owner(self, circle: str) -> str:
        """Return the person a device group belongs to, if known; "" for the user's own group."""
        return keychain.owner_name(self._context, circle)

    def list(self, session: str) -> SharingInfo:
        """Return the persons with whom a session is shared, as its remotes record it."""
        return _sharing(sharing.shares(self._context, session))


def _sharing(shared: Shared) -> SharingInfo:
    members = [
        {"circle": one.circle, "email": one.email or None, "mode": one.mode, "since": one.since}
        for one in shared.members
    ]
    return SharingInfo(
        {
            "session": shared.session,
            "owner": shared.owner or None,
            "members": members,
            "remotes": _deliveries(shared.spread),
        }
    )
