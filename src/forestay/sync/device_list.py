"""Circling: what the devices of one person say of each other, here and on a remote."""

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
    """The key and the circle of this device; refused, with what helps, where there is none."""
    key, group = keychain.own(context)
    known = group.device(key.id)
    return Identity(key, group, known.name if known else keychain.own_name(context))


def with_current_group(context: Context, me: Identity) -> Identity:
    """Who this device is, with its circle as it is by now."""
    group = device_group.load_circle(keychain.folder(context), me.key)
    return me._replace(circle=group) if group is not None else me


class DeviceListSync:
    """What the devices of a circle say of each other, here and on a remote."""

    def __init__(self, remote: Remote, known: Known, context: Context) -> None:
        self._remote, self._known, self._context = remote, known, context
        self._remotes = context.store.machine.remotes

    def meet(self, me: Identity, *, push: bool) -> Identity:
        """Take over what is there, and put there what it lacks."""
        prefix = object_names.group_prefix(me.circle.id)
        seen = {one.name: one for one in self._remotes.objects(self._known, "")}
        shown = self._remote.list(prefix)
        listed = {one.name: one.size for one in shown if object_names.is_circle(one.name)}
        group, fresh = me.circle, []
        for name in sorted(listed.keys() - seen.keys()):
            try:
                found, group = self._read(name, me, group)
            except Outdated as error:
                self._context.notify(f"{error}, and it was passed over: {name}")
                continue
            fresh.append(_met(name, found, listed[name]))
        if push:
            # Two that were put out at once may each hold what replaced the keys of the other.
            group = device_group.with_clean_epoch(group, me.key, made=self._context.clock.now())
        if group is not me.circle:
            group = keychain.kept(self._context, group, me.key, me.circle)
        told = {one.after for name, one in seen.items() if name in listed}
        told |= {one.after for one in fresh}
        if push and _all(group) not in told and group.may_sign(me.key.id):
            fresh.append(self._put(group, me))
        if fresh:
            self._remotes.record_packs(self._known, "", fresh)
        known = group.device(me.key.id)
        return me._replace(circle=group, name=known.name if known else me.name)

    def _read(
        self, name: str, me: Identity, known: DeviceGroup
    ) -> tuple[DeviceGroup | None, DeviceGroup]:
        """What an object tells, and that together with what is known."""
        data = read_group_object(self._remote, name)
        try:
            found = device_group.decode(data, me.key)
            return found, device_group.union(known, found)
        except Locked:
            return None, known  # from before this device was let in, or after it was put out
        except (Tampered, NotEntitled):
            # Nothing is missing: it never was what a device of the circle put there.
            self._context.notify(f"no device of yours wrote this, and it was passed over: {name}")
            return None, known

    def _put(self, group: DeviceGroup, me: Identity) -> Packed:
        data = device_group.encode(group, me.key)
        name = object_names.circle_name(group.id, data)
        self._remote.put(name, data)
        return _met(name, group, len(data))


def _met(name: str, group: DeviceGroup | None, size: int) -> Packed:
    return Packed(name, "", 0, 0, "", _all(group) if group else "", size)


def _all(group: DeviceGroup) -> str:
    """One digest of all that a circle's devices said."""
    return sha256("\n".join(sorted(group.log)).encode()).hexdigest()
