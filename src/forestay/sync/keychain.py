"""The keys of this home: create a device key, join and leave the device group, recover.

The folder `keys` of the home has the key of this device, and its device group, sealed to that key.
A change of the group is stored here first and then *spread*: uploaded to every reachable remote;
the others get it with the next sync. To *gather* a group is to merge every group object on the
remotes that the key opens.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from forestay.base import files
from forestay.base.process import device_name
from forestay.errors import (
    ForestayError,
    InvalidInput,
    Locked,
    NotEntitled,
    NotThere,
    Refused,
    Tampered,
)
from forestay.sync.connect import connect_remote, read_group_object
from forestay.sync.crypto import device_group, key_text, keys
from forestay.sync.crypto.device_group import Device, DeviceGroup
from forestay.sync.crypto.key_text import DeviceCode, same_fingerprint
from forestay.sync.crypto.keys import Key
from forestay.sync.device_names import person_of
from forestay.sync.lock import exclusive_sync
from forestay.sync.remotes import object_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forestay.journal.context import Context

_EXPORT_LIMIT = 64 << 20


class Spread(NamedTuple):
    """Whether a change reached a remote; `error` is empty if it did."""

    remote: str
    error: str = ""


class Changed(NamedTuple):
    """A device group after a change: the device concerned, and which remotes have the change.

    `recovery` is a new recovery code, to be shown once; it is not stored.
    """

    group: DeviceGroup
    device: Device
    spread: list[Spread]
    recovery: str = ""


class Asking(NamedTuple):
    """A device that asks to be added: its code, and the fingerprint to compare."""

    code: str
    device: DeviceCode
    key_id: str


def folder(context: Context) -> str:
    return os.path.join(context.settings.home, files.KEYS)


def own_name(context: Context) -> str:
    return context.settings.device_name or device_name()


def owner_name(context: Context, group_id: str) -> str:
    """Return the person of a device group for display; "" if it is the user."""
    is_own = group_id in ("", device_group.kept_id(folder(context)))
    return "" if is_own else person_of(context, group_id)


def is_locked(context: Context) -> bool:
    """Return whether the key of this device needs a passphrase."""
    place = folder(context)
    return keys.exists(place) and keys.about(place).kept == keys.IN_PASSPHRASE


def own_key(context: Context) -> Key:
    """Load the key of this device; ask for its passphrase once per process."""
    return keys.load(folder(context), ask=context.ask_passphrase)


def own(context: Context) -> tuple[Key, DeviceGroup]:
    """Return the key and device group of this device; raise with a hint if it has none."""
    key = own_key(context)
    group = device_group.load_group(folder(context), key)
    if group is None:
        raise Refused(
            "this device is not in a device group yet",
            hint="forestay device add, then approve it on one of your devices; "
            "if this is the first device: forestay device key init",
        )
    return key, group


# --- the key ----------------------------------------------------------------------------------


def init(context: Context, *, passphrase: str = "", keyring: bool = False) -> Changed:
    """Create a key and a new device group, or protect the existing key in another way."""
    place = folder(context)
    if keys.exists(place) and device_group.is_kept(place):
        if not (passphrase or keyring):
            raise Refused("this device already has a key", hint="forestay device key show")
        key, group = own(context)
        keys.rewrap(place, key, passphrase=passphrase, keyring=keyring)
        return Changed(group, _myself(group, key), [])
    key = _key_made(context, passphrase, keyring)
    recovery = keys.new_recovery_code()
    now = context.clock.now()
    group = device_group.found(key, own_name(context), keys.recovery_key(recovery), made=now)
    with exclusive_sync(context):
        group = device_group.keep(place, group, key)
    return Changed(group, _myself(group, key), spread(context, group, key), recovery)


def _key_made(context: Context, passphrase: str = "", keyring: bool = False) -> Key:
    place = folder(context)
    if not keys.exists(place):
        made = context.clock.now()
        return keys.create(place, passphrase=passphrase, keyring=keyring, made=made)
    key = own_key(context)
    if passphrase or keyring:
        keys.rewrap(place, key, passphrase=passphrase, keyring=keyring)
    return key


def _myself(group: DeviceGroup, key: Key) -> Device:
    found = group.device(key.id)
    if found is None:
        raise NotEntitled("this device is not in the device group", why=f"its key is {key.id}")
    return found


def show(context: Context) -> dict[str, Any]:
    """Return the public facts of this device's key."""
    place = folder(context)
    if not keys.exists(place):
        raise keys.no_key()
    about = keys.about(place)
    id = device_group.kept_id(place)
    found = {
        "id": about.id,
        "kept": about.kept,
        "made": about.made,
        "file": keys.path_of(place),
        "recipient": about.recipient,
        "circle": id or None,
        "circle_fingerprint": key_text.grouped(id) if id else None,
    }
    if not id:
        return found
    try:
        key, group = own(context)
    except Locked:
        return {**found, "locked": True}
    device = _myself(group, key)
    return {
        **found,
        "name": device.name,
        "active": device.active,
        "person": str(group.person),
        "person_fingerprint": group.person.fingerprint,
        "epoch": group.epoch.number,
        "locked": False,
    }


def export(context: Context, path: str, passphrase: str) -> str:
    """Write the key and its device group into a file, encrypted by a passphrase."""
    key, group = own(context)
    kept = keys.about(folder(context)).made
    data = keys.exported(key, passphrase, circle=device_group.sealed_to(group, key), made=kept)
    files.create(path, data)
    return key.id


def import_(context: Context, path: str) -> Changed:
    """Import the key of an export file; it stays encrypted by its passphrase."""
    place = folder(context)
    data = files.read_bounded(path, _EXPORT_LIMIT)
    key, held = keys.imported(data, path, context.ask_passphrase)
    if keys.exists(place):
        known = keys.about(place).id
        if known != key.id:
            raise Refused(
                "the key was not imported: this device already has another key",
                why=f"this device has {known}, the file has {key.id}",
                hint="forestay device key show; to use both keys, choose another home: --home DIR",
            )
    else:
        keys.adopt(place, data)
    group = device_group.opened(held, key)
    group = device_group.keep(place, group, key)
    return Changed(group, _myself(group, key), [])


def rotate(context: Context, *, recovery: bool = False) -> Changed:
    """Begin a new epoch; with `recovery` also replace the recovery code."""
    fresh = keys.new_recovery_code() if recovery else ""

    def act(group: DeviceGroup, key: Key) -> DeviceGroup:
        now = context.clock.now()
        if not fresh:
            return device_group.rotate(group, key, made=now)
        return device_group.replace_recovery(group, key, keys.recovery_key(fresh), made=now)

    return _change(context, act, recovery=fresh)


def recover(context: Context, typed: str, agree: Callable[[DeviceGroup], object] | None) -> Changed:
    """Rejoin the device group with only the recovery code and a remote.

    First call `agree` with the device group; it raises if that is the wrong one.
    """
    recovery = keys.recovery_key(typed)
    place = folder(context)
    if device_group.is_kept(place) and _is_in(context):
        hint = "forestay device list; if it was revoked, first: forestay device add --new-key"
        raise Refused("this device is already in a device group", hint=hint)
    # Anyone who knows the recipient of the code can encrypt a group to it: require its signature.
    closed: list[str] = []
    found = [one for one in _gathered(context, recovery, closed) if one.verify_key(recovery.id)]
    group = device_group.with_recovery(_the_only(found, "the recovery code opens"), recovery)
    if not group.may_sign(recovery.id):
        raise NotEntitled(
            "this recovery code was replaced by another",
            why=f"in the device group {group.fingerprint}",
            hint="use the newer code, or approve this device on another one: forestay device add",
        )
    _require_no_other_group(place, group)
    # If the first recovery code of a group does not decrypt all group objects on a remote, it was
    # probably replaced: warn. A later code never decrypts the objects from before it, so only the
    # first code is checked. This is no error: anyone who can write to a remote can upload them.
    is_first = all(each.content.kind != device_group.RECOVERY for each in group.log.values())
    if is_first and any(name.startswith(object_names.group_prefix(group.id)) for name in closed):
        context.notify(
            "this recovery code does not decrypt all objects of your devices: if it was replaced "
            "(key rotate --recovery), your devices ignore this one; use the newer code"
        )
    if agree is not None:
        agree(group)
    if device_group.is_kept(place) or is_locked(context):
        _set_aside(context)  # the old key cannot be read, or the code would not be needed
    key = _key_made(context)
    device = DeviceCode(own_name(context), key.recipient, key.verify)
    if not group.is_active(key.id):
        group = device_group.approve(group, recovery, device, made=context.clock.now())
    with exclusive_sync(context):
        group = device_group.keep(place, group, key)
    return Changed(group, _myself(group, key), spread(context, group, key))


def _require_no_other_group(place: str, group: DeviceGroup) -> None:
    if (known := device_group.kept_id(place)) not in ("", group.id):
        raise Refused(f"this device is in another device group: {key_text.grouped(known)}")


def _is_in(context: Context) -> bool:
    """Return whether the key of this device can be read and is active in the stored group."""
    if is_locked(context):
        return False
    try:
        key, group = own(context)
    except ForestayError:
        return False  # the keyring is gone, or the file is damaged
    return group.is_active(key.id)


# --- the devices ------------------------------------------------------------------------------


def devices(context: Context) -> tuple[DeviceGroup, str]:
    """Return the device group as known here, and the id of this device in it."""
    key, group = own(context)
    return group, key.id


def ask(context: Context, *, new_key: bool = False) -> Asking:
    """Return the code by which this device asks to be added; create its key if needed."""
    place = folder(context)
    if new_key and keys.exists(place):
        _set_aside(context)
    if device_group.is_kept(place):
        key, group = own(context)
        if group.is_active(key.id):
            raise Refused(
                f"this device is already in the device group {group.fingerprint}",
                hint="forestay device list; for a new key: forestay device add --new-key",
            )
    key = _key_made(context)
    device = DeviceCode(key_text.device_name(own_name(context)), key.recipient, key.verify)
    return Asking(key_text.device_code(*device), device, key.id)


def _set_aside(context: Context) -> None:
    """Rename the old key file, so that a new one can be created."""
    place = folder(context)
    mark = keys.about(place).id
    for name in (keys.FILE, device_group.FILE):
        path = os.path.join(place, name)
        if os.path.lexists(path):
            files.move(path, f"{path}.{mark}")


def confirm(context: Context, fingerprint: str) -> Changed:
    """Join the group of this fingerprint, after one of its devices approved this one."""
    key, place = own_key(context), folder(context)
    key_text.read_fingerprint(fingerprint)
    known = _gathered(context, key)
    found = [one for one in known if same_fingerprint(fingerprint, one.fingerprint)]
    if not found:
        asked = ", ".join(one.name for one in context.store.machine.remotes.all())
        if known:
            why = f"the objects on {asked} for this device belong to another device group"
            hint = "compare the fingerprint with the last line of `forestay device approve` on the"
            hint += " other device"
        else:
            why = f"nothing on {asked} is encrypted to the key {key.id} of this device"
            hint = "to show the code that the other device has to approve: forestay device add; "
            hint += "if it was approved, run on the other device: forestay sync"
        what = f"no remote shows that the device group {fingerprint} has added this device"
        raise NotThere(what, why=why, hint=hint)
    group = _the_only(found, f"the fingerprint {fingerprint} belongs to")
    if not group.is_active(key.id):
        raise NotEntitled(f"this device ({key.id}) is not an active device of that group")
    _require_no_other_group(place, group)
    group = device_group.keep(place, group, key)
    return Changed(group, _myself(group, key), [])


def approve(context: Context, device: DeviceCode) -> Changed:
    """Add the device with this code; it can then read all sessions of the user."""
    now = context.clock.now()
    who = keys.key_id(device.verify)
    return _change(context, lambda c, key: device_group.approve(c, key, device, made=now), who)


def revoke(context: Context, which: str) -> Changed:
    """Revoke a device: it can read nothing that is written from now on."""
    _, group = own(context)
    target = find_device(group, which, active=True)
    now = context.clock.now()
    id = target.key_id
    return _change(context, lambda c, key: device_group.revoke(c, key, id, made=now), id)


def rename(context: Context, which: str, name: str) -> Changed:
    """Rename a device."""
    _, group = own(context)
    id, now = find_device(group, which).key_id, context.clock.now()
    return _change(context, lambda c, key: device_group.rename(c, key, id, name, made=now), id)


def _change(
    context: Context,
    act: Callable[[DeviceGroup, Key], DeviceGroup],
    about: str = "",
    *,
    recovery: str = "",
) -> Changed:
    with exclusive_sync(context):
        key, before = own(context)
        group = kept(context, act(before, key), key, before)
    found = group.device(about or key.id) or _myself(group, key)
    if found.key_id == key.id and context.store.machine.remotes.device_group():
        context.store.machine.remotes.record_group(group.id, found.name)
    return Changed(group, found, spread(context, group, key), recovery)


def kept(context: Context, group: DeviceGroup, key: Key, before: DeviceGroup) -> DeviceGroup:
    """Store a changed group, and the new names of its devices."""
    group = device_group.keep(folder(context), group, key)
    was = {each.key_id: each.name for each in before.devices()}
    pairs = ((was.get(each.key_id, each.name), each.name) for each in group.devices())
    if names := {old: new for old, new in pairs if old != new}:
        context.store.machine.remotes.rename_devices(names, group.id)
    return group


def find_device(group: DeviceGroup, which: str, *, active: bool = False) -> Device:
    """Return the device with a name or an id prefix; a revoked one only if no active one matches.

    A device that rejoined with a new key has the same name as its revoked key.
    """
    every = [each for each in group.devices() if each.active or not active]
    named = [each for each in every if each.name.casefold() == which.strip().casefold()]
    begun = [each for each in every if len(which) >= 4 and each.key_id.startswith(which.lower())]
    found = [each for each in named if each.active] or named or begun
    if len(found) == 1:
        return found[0]
    why = ", ".join(f"{each.name} ({each.key_id})" for each in found or every)
    if found:
        hint = "use the beginning of its key: forestay device list"
        raise InvalidInput(f"several devices are called {which}", why=why, hint=hint)
    raise InvalidInput(f"there is no device {which}", why=why, hint="forestay device list")


# --- remotes ----------------------------------------------------------------------------------


def spread(context: Context, group: DeviceGroup, key: Key) -> list[Spread]:
    """Upload the group to every remote; an unreachable one gets it with the next sync."""
    data = device_group.encode(group, key)
    name = object_names.group_name(group.id, data)
    found = []
    for known in context.store.machine.remotes.all():
        try:
            with closing(connect_remote(known)) as remote:
                remote.put(name, data)
            found.append(Spread(known.name))
        except ForestayError as error:
            found.append(Spread(known.name, str(error)))
    return found


def _gathered(context: Context, key: Key, closed: list[str] | None = None) -> list[DeviceGroup]:
    """Return each device group that a key decrypts on any remote, its versions merged.

    Add the names of group objects that the key does not decrypt to `closed`.
    """
    known = context.store.machine.remotes.all()
    if not known:
        hint = "forestay remote add usb folder:/media/usb/forestay"
        raise InvalidInput("there is no remote yet", hint=hint)
    found: dict[str, DeviceGroup] = {}
    failed: list[ForestayError] = []
    for each in known:
        try:
            with closing(connect_remote(each)) as remote:
                for one in remote.list(object_names.GROUPS):
                    try:
                        group = device_group.decode(read_group_object(remote, one.name), key)
                        before = found.get(group.id)
                        found[group.id] = device_group.union(before, group) if before else group
                    except Locked:  # from another person, or from before this key was added
                        if closed is not None:
                            closed.append(one.name)
                    except (Tampered, NotEntitled, NotThere) as error:
                        failed.append(error)  # no device of the group wrote it
        except ForestayError as error:
            failed.append(error)
    if failed and not found:
        raise failed[0]
    return list(found.values())


def _the_only(found: list[DeviceGroup], what: str) -> DeviceGroup:
    if len(found) == 1:
        return found[0]
    if found:
        why = ", ".join(each.fingerprint for each in found)
        raise InvalidInput(f"{what} more than one device group", why=why)
    raise NotThere(
        f"{what} no device group on any remote",
        why="no group object there is encrypted to this key",
        hint="forestay remote list; on an active device: forestay sync",
    )
