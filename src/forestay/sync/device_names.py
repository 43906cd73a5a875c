"""Who wrote what: the devices behind the chains of a session, and the persons behind those.

A chain carries an id and no name: names are known on this machine only, its own and those that
came with what was taken from a remote. Where nothing is known the id is the name. What a session
has to do with other devices is told here too, from the same tables: none of it is in the journal.
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
    """What people call the device that wrote a chain."""
    return names(context).get(device) or device


def names(context: Context) -> dict[str, str]:
    """Every chain whose device has a name that is known here."""
    remotes, own = context.store.machine.remotes, own_name(context)
    # An id from before the home was moved or copied may be that of another machine by now, and
    # that one says what it is called.
    before = dict.fromkeys(remotes.former_ids(), own)
    return {**before, **remotes.names(), context.store.machine.device: own}


def own_name(context: Context) -> str:
    """What this device is called: in its circle, as the others know it, else by itself."""
    return (
        context.store.machine.remotes.device_name() or context.settings.device_name or device_name()
    )


def whose(context: Context) -> Callable[[str], tuple[str, str]]:
    """For each chain the name of its device, and the person if it is not the user."""
    known, others = names(context), persons(context)
    return lambda device: (known.get(device) or device, others.get(device, ""))


def persons(context: Context) -> dict[str, str]:
    """Chains that others than the user wrote, with who they are."""
    return context.store.machine.remotes.persons()


def person_of(context: Context, group_id: str) -> str:
    """The person of a circle: the fingerprint, with what a device of theirs is called."""
    from forestay.sync.crypto.key_text import grouped

    known, mark = names(context), grouped(group_id)
    called = [known.get(device, device) for device, who in persons(context).items() if who == mark]
    return f"{mark} ({', '.join(dict.fromkeys(called))})" if called else mark


def travel(context: Context, session: str) -> Travel:
    """How a session stands with the remotes of this home: the one synced last, or that failed.

    Where there is none it goes nowhere, unless Claude Desktop reaches it here.
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
    """Those that wrote in the session, in a fixed order, and this one."""
    known = names(context)
    with context.store.view(session) as view:
        chains = context.journal.state(view).core.chains
    found = [known.get(device, device) for device in sorted(chains)]
    return list(dict.fromkeys([*found, known[context.store.machine.device]]))
