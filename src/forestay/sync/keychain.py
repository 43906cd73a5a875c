"""The keys of this home: how a device gets one, joins a circle, leaves it, and comes back.

All that is known lies in the folder `keys` of the home: the key of this device, and what it knows
of its circle, sealed to that key. A change of the circle is kept here first and then *spread*: it
is put on every remote that can be reached; the others get it with the next sync. What a device
learns of its circle from a remote it *gathers*: every circle object that opens, merged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
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
from forestay.sync.connect import circle_bytes, reached
from forestay.sync.crypto import device_group as circles
from forestay.sync.crypto import key_text, keys
from forestay.sync.crypto.device_group import Circle, Device
from forestay.sync.crypto.key_text import DeviceCode, same_fingerprint
from forestay.sync.crypto.keys import Key
from forestay.sync.device_names import person_of
from forestay.sync.lock import alone
from forestay.sync.remotes import object_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forestay.journal.context import Context
    from forestay.store.machine.remotes import Known
    from forestay.sync.remotes.port import Remote

_EXPORT_LIMIT = 64 << 20


class Spread(NamedTuple):
    """Whether a change reached a remote; `error` is empty if it did."""

    remote: str
    error: str = ""


class Changed(NamedTuple):
    """A circle after a change: the device it was about, and how far the change has come.

    `recovery` is a new recovery code, to be shown once; it is kept nowhere.
    """

    circle: Circle
    device: Device
    spread: list[Spread]
    recovery: str = ""


class Asking(NamedTuple):
    """A device that asks to be let in: its code, and what to compare on the other one."""

    code: str
    device: DeviceCode
    key_id: str


def folder(context: Context) -> str:
    return os.path.join(context.settings.home, files.KEYS)


def own_name(context: Context) -> str:
    return context.settings.device_name or device_name()


def own_circle(context: Context) -> str:
    """The id of the circle that this device is in; "" if it is in none."""
    return circles.kept_id(folder(context))


def owner_name(context: Context, circle: str) -> str:
    """Return who the person of a device group is; empty if it is the user."""
    return "" if circle in ("", own_circle(context)) else person_of(context, circle)


def is_locked(context: Context) -> bool:
    """Whether the key of this device is wrapped in a passphrase that must be known to open it."""
    place = folder(context)
    return keys.exists(place) and keys.about(place).kept == keys.IN_PASSPHRASE


def own_key(context: Context) -> Key:
    """The key of this device; its passphrase is asked for once in a process."""
    return keys.load(folder(context), ask=context.ask_passphrase)


def own(context: Context) -> tuple[Key, Circle]:
    """The key and the circle of this device; refused, with what helps, where there is none."""
    key = own_key(context)
    circle = circles.load_circle(folder(context), key)
    if circle is None:
        raise Refused(
            "this device is in no circle yet",
            hint="forestay device add, and approve it there; or for the first device: "
            "forestay device key init",
        )
    return key, circle


# --- the key ----------------------------------------------------------------------------------


def init(context: Context, *, passphrase: str = "", keyring: bool = False) -> Changed:
    """Make the key of this device and a circle of its own, or wrap the key that there is."""
    place = folder(context)
    if keys.exists(place) and circles.is_kept(place):
        if not (passphrase or keyring):
            raise Refused("this device has a key already", hint="forestay device key show")
        key, circle = own(context)
        keys.rewrap(place, key, passphrase=passphrase, keyring=keyring)
        return Changed(circle, _myself(circle, key), [])
    key = _key_made(context, passphrase, keyring)
    recovery = keys.new_recovery_code()
    now = context.clock.now()
    circle = circles.found(key, own_name(context), keys.recovery_key(recovery), made=now)
    with alone(context):
        circle = circles.keep(place, circle, key)
    return Changed(circle, _myself(circle, key), spread(context, circle, key), recovery)


def _key_made(context: Context, passphrase: str = "", keyring: bool = False) -> Key:
    place = folder(context)
    if not keys.exists(place):
        made = context.clock.now()
        return keys.create(place, passphrase=passphrase, keyring=keyring, made=made)
    key = own_key(context)
    if passphrase or keyring:
        keys.rewrap(place, key, passphrase=passphrase, keyring=keyring)
    return key


def _myself(circle: Circle, key: Key) -> Device:
    found = circle.device(key.id)
    if found is None:
        raise NotEntitled("this device is not in the circle", why=key.id)
    return found


def show(context: Context) -> dict[str, Any]:
    """What is known of this device's key, nothing of it secret."""
    place = folder(context)
    if not keys.exists(place):
        raise keys.no_key()
    about = keys.about(place)
    id = circles.kept_id(place)
    found = {
        "id": about.id,
        "kept": about.kept,
        "made": about.made,
        "file": keys.path_of(place),
        "recipient": about.recipient,
        "circle": id or None,
        "circle_fingerprint": key_text.grouped(id) if id else None,
    }
    return {**found, **(_opened(context) if id else {})}


def _opened(context: Context) -> dict[str, Any]:
    """What only shows once the key is unlocked."""
    try:
        key, circle = own(context)
    except Locked:
        return {"locked": True}
    device = _myself(circle, key)
    return {
        "name": device.name,
        "active": device.active,
        "person": str(circle.person),
        "person_fingerprint": circle.person.fingerprint,
        "epoch": circle.epoch.number,
        "locked": False,
    }


def export(context: Context, path: str, passphrase: str) -> str:
    """Write the key, with what it knows of its circle, into a file wrapped in a passphrase."""
    key, circle = own(context)
    kept = keys.about(folder(context)).made
    data = keys.exported(key, passphrase, circle=circles.sealed_to(circle, key), made=kept)
    files.create(path, data)
    return key.id


def import_(context: Context, path: str) -> Changed:
    """Take the key of such a file; it stays wrapped in its passphrase."""
    place = folder(context)
    data = files.read_bounded(path, _EXPORT_LIMIT)
    key, held = keys.imported(data, path, context.ask_passphrase)
    if keys.exists(place):
        known = keys.about(place).id
        if known != key.id:
            raise Refused(
                "this device has another key already",
                why=f"{known}, and the file has {key.id}",
                hint="forestay device key show; use another home for it: --home DIR",
            )
    else:
        keys.adopt(place, data)
    circle = circles.opened(held, key)
    circle = circles.keep(place, circle, key)
    return Changed(circle, _myself(circle, key), [])


def rotate(context: Context, *, recovery: bool = False) -> Changed:
    """Begin a new epoch; with `recovery` also a new recovery code, in place of the old one."""
    fresh = keys.new_recovery_code() if recovery else ""

    def act(circle: Circle, key: Key) -> Circle:
        now = context.clock.now()
        if not fresh:
            return circles.rotate(circle, key, made=now)
        return circles.replace_recovery(circle, key, keys.recovery_key(fresh), made=now)

    return _change(context, act, recovery=fresh)


def recover(context: Context, typed: str, agree: Callable[[Circle], object] | None) -> Changed:
    """Come back with nothing but the recovery code and a remote that has what was pushed.

    `agree` is shown the circle first, and raises if it is not the right one.
    """
    recovery = keys.recovery_key(typed)
    place = folder(context)
    if circles.is_kept(place) and _is_in(context):
        hint = "forestay device list; if it was put out: forestay device add --new-key, then again"
        raise Refused("this device is in a circle already", hint=hint)
    # What is merely sealed to the code, by whoever knows to whom it seals, is none of its circles.
    closed: list[str] = []
    found = [one for one in _gathered(context, recovery, closed) if one.verify_key(recovery.id)]
    circle = circles.sealing(_the_only(found, "the recovery code opens"), recovery)
    if not circle.may_speak(recovery.id):
        raise NotEntitled(
            "this recovery code was replaced by another",
            why=f"in the circle {circle.fingerprint}",
            hint="use the newer code, or approve this device on another one: forestay device add",
        )
    if circles.kept_id(place) not in ("", circle.id):
        raise Refused(
            "this device is in another circle", why=key_text.grouped(circles.kept_id(place))
        )
    _warn_of_newer(context, circle, closed)
    if agree is not None:
        agree(circle)
    if circles.is_kept(place) or is_locked(context):
        _set_aside(context)  # nobody opens that key any more, else there were no need for the code
    key = _key_made(context)
    told = DeviceCode(own_name(context), key.recipient, key.verify)
    if not circle.is_active(key.id):
        circle = circles.approve(circle, recovery, told, made=context.clock.now())
    with alone(context):
        circle = circles.keep(place, circle, key)
    return Changed(circle, _myself(circle, key), spread(context, circle, key))


def _warn_of_newer(context: Context, circle: Circle, closed: Iterable[str]) -> None:
    """The first code of a circle opens all that its devices say, until it is replaced.

    Of a later one nobody can tell: what was said before it does not open by it either. It stops
    nothing, because whoever can write there could put something there that does not open.
    """
    is_first = all(each.told.kind != circles.RECOVERY for each in circle.said.values())
    if is_first and any(name.startswith(object_names.circles(circle.id)) for name in closed):
        context.notify(
            "not all that your devices said there opens by this code: if it was replaced since "
            "(key rotate --recovery), they do not know this device; use the newer code"
        )


def _is_in(context: Context) -> bool:
    """Whether this device can speak in its circle, as far as it knows: its key opens."""
    if is_locked(context):
        return False
    try:
        key, circle = own(context)
    except ForestayError:
        return False  # a keyring that is gone, a file that is damaged
    return circle.is_active(key.id)


# --- the devices ------------------------------------------------------------------------------


def devices(context: Context) -> tuple[Circle, str]:
    """The circle as it is known here, and the id of this device in it."""
    key, circle = own(context)
    return circle, key.id


def ask(context: Context, *, new_key: bool = False) -> Asking:
    """The code by which this device asks to be let in; its key is made if there is none."""
    place = folder(context)
    if new_key and keys.exists(place):
        _set_aside(context)
    if circles.is_kept(place):
        key, circle = own(context)
        if circle.is_active(key.id):
            raise Refused(
                f"this device is in the circle {circle.fingerprint} already",
                hint="forestay device list; for a key of its own: forestay device add --new-key",
            )
    key = _key_made(context)
    told = DeviceCode(key_text.device_name(own_name(context)), key.recipient, key.verify)
    return Asking(key_text.device_code(*told), told, key.id)


def _set_aside(context: Context) -> None:
    """Keep the old key beside, so that a new one can be made."""
    place = folder(context)
    mark = keys.about(place).id
    for name in (keys.FILE, circles.FILE):
        path = os.path.join(place, name)
        if os.path.lexists(path):
            files.move(path, f"{path}.{mark}")


def confirm(context: Context, fingerprint: str) -> Changed:
    """Join the circle of this fingerprint, once a device of it has approved this one."""
    key, place = own_key(context), folder(context)
    key_text.read_fingerprint(fingerprint)
    known = _gathered(context, key)
    found = [one for one in known if same_fingerprint(fingerprint, one.fingerprint)]
    if not found:
        raise _not_let_in(context, key, fingerprint, elsewhere=bool(known))
    circle = _the_only(found, f"the fingerprint {fingerprint} means")
    if not circle.is_active(key.id):
        raise NotEntitled("this device is not in that circle, or not any more", why=key.id)
    if circles.kept_id(place) not in ("", circle.id):
        raise Refused(
            "this device is in another circle", why=key_text.grouped(circles.kept_id(place))
        )
    circle = circles.keep(place, circle, key)
    return Changed(circle, _myself(circle, key), [])


def _not_let_in(context: Context, key: Key, fingerprint: str, *, elsewhere: bool) -> NotThere:
    """No remote shows that the circle let this device in; another one may have."""
    asked = ", ".join(one.name for one in context.store.machine.remotes.all())
    if elsewhere:
        why = f"what {asked} has for this device is of another circle"
        hint = "compare it with the last line of `forestay device approve` on the other device"
    else:
        why = f"nothing on {asked} is sealed to its key {key.id}"
        hint = "its code, to be approved on the other device: forestay device add; "
        hint += "if that was done, there: forestay sync"
    what = f"the circle {fingerprint} has not let this device in, as far as can be seen here"
    return NotThere(what, why=why, hint=hint)


def approve(context: Context, device: DeviceCode) -> Changed:
    """Let a device in that showed its code; it can then read everything."""
    now = context.clock.now()
    who = keys.key_id(device.verify)
    return _change(context, lambda c, key: circles.approve(c, key, device, made=now), who)


def revoke(context: Context, which: str) -> Changed:
    """Put a device out: it reads nothing that is written from now on."""
    _, circle = own(context)
    target = meant(circle, which, active=True)
    now = context.clock.now()
    return _change(
        context, lambda c, key: circles.revoke(c, key, target.key_id, made=now), target.key_id
    )


def rename(context: Context, which: str, name: str) -> Changed:
    """Call a device by another name."""
    _, circle = own(context)
    target, now = meant(circle, which), context.clock.now()
    return _change(
        context, lambda c, key: circles.rename(c, key, target.key_id, name, made=now), target.key_id
    )


def _change(
    context: Context, act: Callable[[Circle, Key], Circle], about: str = "", *, recovery: str = ""
) -> Changed:
    with alone(context):
        key, before = own(context)
        circle = kept(context, act(before, key), key, before)
    found = circle.device(about or key.id) or _myself(circle, key)
    if found.key_id == key.id and context.store.machine.remotes.circle():
        context.store.machine.remotes.is_of(circle.id, found.name)
    return Changed(circle, found, spread(context, circle, key), recovery)


def kept(context: Context, circle: Circle, key: Key, before: Circle) -> Circle:
    """Keep what a circle has become; what its devices are called now is told from now on."""
    circle = circles.keep(folder(context), circle, key)
    was = {each.key_id: each.name for each in before.devices()}
    pairs = ((was.get(each.key_id, each.name), each.name) for each in circle.devices())
    if names := {old: new for old, new in pairs if old != new}:
        context.store.machine.remotes.renamed(names, circle.id)
    return circle


def meant(circle: Circle, which: str, *, active: bool = False) -> Device:
    """The device of a name, or of the beginning of an id; one that was put out only if none is in.

    Who comes back with a new key has the name of the old one.
    """
    every = [each for each in circle.devices() if each.active or not active]
    named = [each for each in every if each.name.casefold() == which.strip().casefold()]
    begun = [each for each in every if len(which) >= 4 and each.key_id.startswith(which.lower())]
    found = [each for each in named if each.active] or named or begun
    if len(found) == 1:
        return found[0]
    why = ", ".join(f"{each.name} ({each.key_id})" for each in found or every)
    if found:
        hint = "say which by the beginning of its key: forestay device list"
        raise InvalidInput(f"several devices are called {which}", why=why, hint=hint)
    raise InvalidInput(f"there is no device {which}", why=why, hint="forestay device list")


# --- remotes ----------------------------------------------------------------------------------


def spread(context: Context, circle: Circle, key: Key) -> list[Spread]:
    """Put the circle on every remote; what cannot be reached now gets it with the next sync."""
    data = circles.encode(circle, key)
    name = object_names.circle_name(circle.id, data)
    return [_put(known, name, data) for known in context.store.machine.remotes.all()]


def _put(known: Known, name: str, data: bytes) -> Spread:
    try:
        with closing(reached(known)) as there:
            there.put(name, data)
    except ForestayError as error:
        return Spread(known.name, str(error))
    return Spread(known.name)


def _gathered(context: Context, key: Key, closed: list[str] | None = None) -> list[Circle]:
    """Every circle that a key opens on any remote, each with all that is told of it.

    The names of what it does not open come to `closed`.
    """
    known = context.store.machine.remotes.all()
    if not known:
        raise InvalidInput(
            "there is no remote to look at",
            hint="forestay remote add usb folder:/media/usb/forestay",
        )
    found: dict[str, Circle] = {}
    failed: list[ForestayError] = []
    for each in known:
        try:
            failed += _gather(each, key, found, [] if closed is None else closed)
        except ForestayError as error:
            failed.append(error)
    if failed and not found:
        raise failed[0]
    return list(found.values())


def _gather(
    known: Known, key: Key, found: dict[str, Circle], closed: list[str]
) -> list[ForestayError]:
    """Add what a remote tells; what no device wrote is passed over, and returned as errors."""
    wrong: list[ForestayError] = []
    with closing(reached(known)) as there:
        for each in there.list(object_names.CIRCLES):
            try:
                circle = read(there, each.name, key)
                if circle is None:
                    closed.append(each.name)
                else:
                    before = found.get(circle.id)
                    found[circle.id] = circles.union(before, circle) if before else circle
            except (Tampered, NotEntitled, NotThere) as error:
                wrong.append(error)
    return wrong


def read(there: Remote, name: str, key: Key) -> Circle | None:
    """The circle in an object of this name; None if it is not for this key."""
    data = circle_bytes(there, name)
    try:
        return circles.decode(data, key)
    except Locked:
        return None  # of someone else, or from before this key was let in


def _the_only(found: list[Circle], what: str) -> Circle:
    if len(found) == 1:
        return found[0]
    if found:
        why = ", ".join(each.fingerprint for each in found)
        raise InvalidInput(f"{what} more than one circle", why=why)
    raise NotThere(
        f"{what} no circle on any remote",
        why="nothing that was put there is sealed to it",
        hint="forestay remote list; on a device that is in the circle: forestay sync",
    )
