"""The names of the devices and persons that wrote the chains of a session.

A chain (the events of one device) has an id and no name. Names are stored on this machine only:
the name of this device, and those that came with pulled packs. Without a name the id is shown. The
sync state of a session is computed here too, from the same tables; none of it is in the journal.
"""

from __future__ import annotations

from forestay.base.process import device_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from forestay.formats.port import Travel
    from forestay.journal.context import Context
    from forestay.store.machine.remotes import Known


def name_of(context: Context, device: str) -> str:
    """Return the name of the device that wrote a chain."""
    return names(context).get(device) or device


def names(context: Context) -> dict[str, str]:
    """Return chain → device name, for all known names."""
    remotes, own = context.store.machine.remotes, own_name(context)
    # A former id of a home that was moved or copied may be in use on another machine by now,
    # which then gives its name.
    before = dict.fromkeys(remotes.former_ids(), own)
    return {**before, **remotes.names(), context.store.machine.device: own}


def own_name(context: Context) -> str:
    """Return the name of this device: from its device group, else from its settings."""
    return (
        context.store.machine.remotes.device_name() or context.settings.device_name or device_name()
    )


def whose(context: Context) -> Callable[[str], tuple[str, str]]:
    """Return a function chain → (device name, person if not the user)."""
    known, others = names(context), persons(context)
    return lambda device: (known.get(device) or device, others.get(device, ""))


def persons(context: Context) -> dict[str, str]:
    """Return chain → person, for chains that other persons wrote."""
    return context.store.machine.remotes.persons()


def person_of(context: Context, group_id: str) -> str:
    """Describe the person of a device group by its fingerprint and the names of its devices."""
    from forestay.sync.crypto.key_text import grouped

    known, mark = names(context), grouped(group_id)
    called = [known.get(device, device) for device, who in persons(context).items() if who == mark]
    return f"{mark} ({', '.join(dict.fromkeys(called))})" if called else mark


def travel(context: Context, session: str) -> Travel:
    """Return the sync state of a session with the remote that was synced, or failed, last.

    Without a remote the session is not synced, unless Claude Desktop uses this home.
    """
    from forestay.formats.port import Travel

    remotes = context.store.machine.remotes
    if not remotes.any():
        is_in = remotes.is_in_desktop()
        backend = "claude-desktop" if is_in else "local"
        return Travel(enabled=is_in, devices=tuple(_devices(context, session)), backend=backend)
    last = max(remotes.all(), key=lambda one: (one.result == "failed", one.synced))
    waiting = remotes.waiting(session) or 0
    there = remotes.session(last, session)
    error = (there.error if there else "") or (last.error if last.result == "failed" else "")
    return Travel(
        enabled=True,
        last_sync=max(one.synced for one in remotes.all()),
        status=_status(last, error, waiting),
        error=error,
        devices=tuple(_devices(context, session)),
        backend="s3" if last.address.startswith("s3:") else "local",
        encrypted=True,
        shared_with=tuple(remotes.shared(session)),
    )


def _status(last: Known, error: str, waiting: int) -> str:
    if error:
        return "error"
    if waiting:
        return "pending"
    return "success" if last.synced else ""


def _devices(context: Context, session: str) -> list[str]:
    """Return the sorted names of this device and of all that wrote to the session."""
    known = names(context)
    with context.store.view(session) as view:
        chains = context.journal.state(view).core.chains
    found = [known.get(device, device) for device in sorted(chains)]
    return list(dict.fromkeys([*found, known[context.store.machine.device]]))
