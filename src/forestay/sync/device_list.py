"""Sync the device group of the user with a remote."""

from __future__ import annotations

from hashlib import sha256

from forestay.errors import Locked, NotEntitled, Outdated, Tampered
from forestay.journal.context import Context
from forestay.store.machine.remotes import Known, Packed
from forestay.sync import keychain
from forestay.sync.connect import read_group_object
from forestay.sync.crypto import device_group
from forestay.sync.crypto.device_group import DeviceGroup
from forestay.sync.remotes import object_names
from forestay.sync.remotes.port import Remote
from forestay.sync.session_keys import Identity


def identity(context: Context) -> Identity:
    """Return the key and device group of this device; raise with a hint if it has none."""
    key, group = keychain.own(context)
    known = group.device(key.id)
    return Identity(key, group, known.name if known else keychain.own_name(context))


def with_current_group(context: Context, me: Identity) -> Identity:
    """Return the identity with the device group as stored now."""
    group = device_group.load_group(keychain.folder(context), me.key)
    return me._replace(group=group) if group is not None else me


class DeviceListSync:
    """The device group of the user, here and on one remote."""

    def __init__(self, remote: Remote, known: Known, context: Context) -> None:
        self._remote, self._known, self._context = remote, known, context
        self._remotes = context.store.machine.remotes

    def sync_device_list(self, me: Identity, *, push: bool) -> Identity:
        """Merge the statements on the remote, and upload those that it lacks."""
        prefix = object_names.group_prefix(me.group.id)
        seen = {one.name: one for one in self._remotes.objects(self._known, "")}
        shown = self._remote.list(prefix)
        listed = {one.name: one.size for one in shown if object_names.is_group(one.name)}
        group, fresh = me.group, []
        for name in sorted(listed.keys() - seen.keys()):
            try:
                found, group = self._read(name, me, group)
            except Outdated as error:
                self._context.notify(f"{error}, and it was skipped: {name}")
                continue
            fresh.append(_met(name, found, listed[name]))
        if push:
            # Two devices revoked at once may each hold the epoch that replaced the other's.
            group = device_group.with_clean_epoch(group, me.key, made=self._context.clock.now())
        if group is not me.group:
            group = keychain.kept(self._context, group, me.key, me.group)
        told = {one.after for name, one in seen.items() if name in listed}
        told |= {one.after for one in fresh}
        if push and _all(group) not in told and group.may_sign(me.key.id):
            fresh.append(self._put(group, me))
        if fresh:
            self._remotes.record_packs(self._known, "", fresh)
        known = group.device(me.key.id)
        return me._replace(group=group, name=known.name if known else me.name)

    def _read(
        self, name: str, me: Identity, known: DeviceGroup
    ) -> tuple[DeviceGroup | None, DeviceGroup]:
        """Return the group in an object, None if unusable, and its union with `known`."""
        data = read_group_object(self._remote, name)
        try:
            found = device_group.decode(data, me.key)
            return found, device_group.union(known, found)
        except Locked:
            return None, known  # from before this device was added, or after it was revoked
        except (Tampered, NotEntitled):
            # Nothing is lost: no device of the group wrote it.
            self._context.notify(f"skipped, because no device of yours wrote it: {name}")
            return None, known

    def _put(self, group: DeviceGroup, me: Identity) -> Packed:
        data = device_group.encode(group, me.key)
        name = object_names.group_name(group.id, data)
        self._remote.put(name, data)
        return _met(name, group, len(data))


def _met(name: str, group: DeviceGroup | None, size: int) -> Packed:
    return Packed(name, "", 0, 0, "", _all(group) if group else "", size)


def _all(group: DeviceGroup) -> str:
    """Return a digest of all statements of a group."""
    return sha256("\n".join(sorted(group.log)).encode()).hexdigest()
