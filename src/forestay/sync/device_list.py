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
    """Return the identity with the device group that is stored on this device now."""
    group = device_group.load_group(keychain.folder(context), me.key)
    return me._replace(group=group) if group is not None else me


def sync_device_list(
    context: Context, remote: Remote, known: Known, me: Identity, *, push: bool
) -> Identity:
    """Merge the statements on the remote with the local ones; upload those the remote lacks."""
    remotes = context.store.machine.remotes
    seen = {one.name: one for one in remotes.objects(known, "")}
    shown = remote.list(object_names.group_prefix(me.group.id))
    listed = {one.name: one.size for one in shown if object_names.is_group(one.name)}
    group, fresh = me.group, []
    for name in sorted(listed.keys() - seen.keys()):
        data, found = read_group_object(remote, name), None
        try:
            found = device_group.decode(data, me.key)
            group = device_group.union(group, found)
        except Locked:
            pass  # uploaded before this device was added, or after it was revoked
        except Outdated as error:
            context.notify(f"{error}; this object was skipped: {name}")
            continue
        except (Tampered, NotEntitled):
            # Nothing is lost: no device of the group wrote this object.
            context.notify(f"an object that none of your devices wrote was skipped: {name}")
        fresh.append(_record(name, found, listed[name]))
    if push:
        # Two devices revoked at once may each hold the epoch that replaced the other's.
        group = device_group.with_clean_epoch(group, me.key, made=context.clock.now())
    if group is not me.group:
        group = keychain.kept(context, group, me.key, me.group)
    uploaded = {one.after for name, one in seen.items() if name in listed}
    uploaded |= {one.after for one in fresh}
    if push and _log_digest(group) not in uploaded and group.may_sign(me.key.id):
        data = device_group.encode(group, me.key)
        name = object_names.group_name(group.id, data)
        remote.put(name, data)
        fresh.append(_record(name, group, len(data)))
    if fresh:
        remotes.record_packs(known, "", fresh)
    own = group.device(me.key.id)
    return me._replace(group=group, name=own.name if own else me.name)


def _record(name: str, group: DeviceGroup | None, size: int) -> Packed:
    return Packed(name, "", 0, 0, "", _log_digest(group) if group else "", size)


def _log_digest(group: DeviceGroup) -> str:
    """Return a digest of all statements of a group."""
    return sha256("\n".join(sorted(group.log)).encode()).hexdigest()
