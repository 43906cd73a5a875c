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

from holdfast import files
from holdfast.errors import (
    HoldfastError,
    InvalidInput,
    Locked,
    NotEntitled,
    NotThere,
    Refused,
    Tampered,
)
from holdfast.remote import circle as circles
from holdfast.remote import code, keys, names
from holdfast.remote.circle import Circle, Device
from holdfast.remote.code import DeviceCode, same_fingerprint
from holdfast.remote.keys import Key
from holdfast.travel.alone import alone
from holdfast.travel.reach import circle_bytes, reached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.home import Holdfast
    from holdfast.remote import Remote
    from holdfast.store.remotes import Known

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


def folder(home: Holdfast) -> str:
    return os.path.join(home.settings.home, files.KEYS)


def own_name(home: Holdfast) -> str:
    from holdfast.process import device_name

    return home.settings.device_name or device_name()


def own_circle(home: Holdfast) -> str:
    """The id of the circle that this device is in; "" if it is in none."""
    return circles.kept_id(folder(home))


def is_locked(home: Holdfast) -> bool:
    """Whether the key of this device is wrapped in a passphrase that must be known to open it."""
    place = folder(home)
    return keys.exists(place) and keys.about(place).kept == keys.IN_PASSPHRASE


def own_key(home: Holdfast) -> Key:
    """The key of this device; its passphrase is asked for once in a process."""
    return keys.load(folder(home), ask=home.ask_passphrase)


def own(home: Holdfast) -> tuple[Key, Circle]:
    """The key and the circle of this device; refused, with what helps, where there is none."""
    key = own_key(home)
    circle = circles.load_circle(folder(home), key)
    if circle is None:
        raise Refused(
            "this device is in no circle yet",
            hint="holdfast devices add, and approve it there; or for the first device: "
            "holdfast key init",
        )
    return key, circle


# --- the key ----------------------------------------------------------------------------------


def init(home: Holdfast, *, passphrase: str = "", keyring: bool = False) -> Changed:
    """Make the key of this device and a circle of its own, or wrap the key that there is."""
    place = folder(home)
    if keys.exists(place) and circles.is_kept(place):
        if not (passphrase or keyring):
            raise Refused("this device has a key already", hint="holdfast key show")
        key, circle = own(home)
        keys.rewrap(place, key, passphrase=passphrase, keyring=keyring)
        return Changed(circle, _myself(circle, key), [])
    key = _key_made(home, passphrase, keyring)
    recovery = keys.new_recovery_code()
    now = home.clock.now()
    circle = circles.found(key, own_name(home), keys.recovery_key(recovery), made=now)
    with alone(home):
        circle = circles.keep(place, circle, key)
    return Changed(circle, _myself(circle, key), spread(home, circle, key), recovery)


def _key_made(home: Holdfast, passphrase: str = "", keyring: bool = False) -> Key:
    place = folder(home)
    if not keys.exists(place):
        made = home.clock.now()
        return keys.create(place, passphrase=passphrase, keyring=keyring, made=made)
    key = own_key(home)
    if passphrase or keyring:
        keys.rewrap(place, key, passphrase=passphrase, keyring=keyring)
    return key


def _myself(circle: Circle, key: Key) -> Device:
    found = circle.device(key.id)
    if found is None:
        raise NotEntitled("this device is not in the circle", why=key.id)
    return found


def show(home: Holdfast) -> dict[str, Any]:
    """What is known of this device's key, nothing of it secret."""
    place = folder(home)
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
        "circle_fingerprint": code.grouped(id) if id else None,
    }
    return {**found, **(_opened(home) if id else {})}


def _opened(home: Holdfast) -> dict[str, Any]:
    """What only shows once the key is unlocked."""
    try:
        key, circle = own(home)
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


def export(home: Holdfast, path: str, passphrase: str) -> str:
    """Write the key, with what it knows of its circle, into a file wrapped in a passphrase."""
    key, circle = own(home)
    kept = keys.about(folder(home)).made
    data = keys.exported(key, passphrase, circle=circles.sealed_to(circle, key), made=kept)
    files.create(path, data)
    return key.id


def import_(home: Holdfast, path: str) -> Changed:
    """Take the key of such a file; it stays wrapped in its passphrase."""
    place = folder(home)
    data = files.read_bounded(path, _EXPORT_LIMIT)
    key, held = keys.imported(data, path, home.ask_passphrase)
    if keys.exists(place):
        known = keys.about(place).id
        if known != key.id:
            raise Refused(
                "this device has another key already",
                why=f"{known}, and the file has {key.id}",
                hint="holdfast key show; use another home for it: --home DIR",
            )
    else:
        keys.adopt(place, data)
    circle = circles.opened(held, key)
    circle = circles.keep(place, circle, key)
    return Changed(circle, _myself(circle, key), [])


def rotate(home: Holdfast, *, recovery: bool = False) -> Changed:
    """Begin a new epoch; with `recovery` also a new recovery code, in place of the old one."""
    fresh = keys.new_recovery_code() if recovery else ""

    def act(circle: Circle, key: Key) -> Circle:
        now = home.clock.now()
        if not fresh:
            return circles.rotate(circle, key, made=now)
        return circles.replace_recovery(circle, key, keys.recovery_key(fresh), made=now)

    return _change(home, act, recovery=fresh)


def recover(home: Holdfast, typed: str, agree: Callable[[Circle], object] | None) -> Changed:
    """Come back with nothing but the recovery code and a remote that has what was pushed.

    `agree` is shown the circle first, and raises if it is not the right one.
    """
    recovery = keys.recovery_key(typed)
    place = folder(home)
    if circles.is_kept(place) and _is_in(home):
        hint = (
            "holdfast devices list; if it was put out: holdfast devices add --new-key, then again"
        )
        raise Refused("this device is in a circle already", hint=hint)
    # What is merely sealed to the code, by whoever knows to whom it seals, is none of its circles.
    closed: list[str] = []
    found = [one for one in _gathered(home, recovery, closed) if one.verify_key(recovery.id)]
    circle = circles.sealing(_the_only(found, "the recovery code opens"), recovery)
    if not circle.may_speak(recovery.id):
        raise NotEntitled(
            "this recovery code was replaced by another",
            why=f"in the circle {circle.fingerprint}",
            hint="use the newer code, or approve this device on another one: holdfast devices add",
        )
    if circles.kept_id(place) not in ("", circle.id):
        raise Refused("this device is in another circle", why=code.grouped(circles.kept_id(place)))
    _warn_of_newer(home, circle, closed)
    if agree is not None:
        agree(circle)
    if circles.is_kept(place) or is_locked(home):
        _set_aside(home)  # nobody opens that key any more, else there were no need for the code
    key = _key_made(home)
    told = DeviceCode(own_name(home), key.recipient, key.verify)
    if not circle.is_active(key.id):
        circle = circles.approve(circle, recovery, told, made=home.clock.now())
    with alone(home):
        circle = circles.keep(place, circle, key)
    return Changed(circle, _myself(circle, key), spread(home, circle, key))


def _warn_of_newer(home: Holdfast, circle: Circle, closed: Iterable[str]) -> None:
    """The first code of a circle opens all that its devices say, until it is replaced.

    Of a later one nobody can tell: what was said before it does not open by it either. It stops
    nothing, because whoever can write there could put something there that does not open.
    """
    is_first = all(each.told.kind != circles.RECOVERY for each in circle.said.values())
    if is_first and any(name.startswith(names.circles(circle.id)) for name in closed):
        home.say(
            "not all that your devices said there opens by this code: if it was replaced since "
            "(key rotate --recovery), they do not know this device; use the newer code"
        )


def _is_in(home: Holdfast) -> bool:
    """Whether this device can speak in its circle, as far as it knows: its key opens."""
    if is_locked(home):
        return False
    try:
        key, circle = own(home)
    except HoldfastError:
        return False  # a keyring that is gone, a file that is damaged
    return circle.is_active(key.id)


# --- the devices ------------------------------------------------------------------------------


def devices(home: Holdfast) -> tuple[Circle, str]:
    """The circle as it is known here, and the id of this device in it."""
    key, circle = own(home)
    return circle, key.id


def ask(home: Holdfast, *, new_key: bool = False) -> Asking:
    """The code by which this device asks to be let in; its key is made if there is none."""
    place = folder(home)
    if new_key and keys.exists(place):
        _set_aside(home)
    if circles.is_kept(place):
        key, circle = own(home)
        if circle.is_active(key.id):
            raise Refused(
                f"this device is in the circle {circle.fingerprint} already",
                hint="holdfast devices list; for a key of its own: holdfast devices add --new-key",
            )
    key = _key_made(home)
    told = DeviceCode(code.device_name(own_name(home)), key.recipient, key.verify)
    return Asking(code.device_code(*told), told, key.id)


def _set_aside(home: Holdfast) -> None:
    """Keep the old key beside, so that a new one can be made."""
    place = folder(home)
    mark = keys.about(place).id
    for name in (keys.FILE, circles.FILE):
        path = os.path.join(place, name)
        if os.path.lexists(path):
            files.move(path, f"{path}.{mark}")


def confirm(home: Holdfast, fingerprint: str) -> Changed:
    """Join the circle of this fingerprint, once a device of it has approved this one."""
    key, place = own_key(home), folder(home)
    code.read_fingerprint(fingerprint)
    known = _gathered(home, key)
    found = [one for one in known if same_fingerprint(fingerprint, one.fingerprint)]
    if not found:
        raise _not_let_in(home, key, fingerprint, elsewhere=bool(known))
    circle = _the_only(found, f"the fingerprint {fingerprint} means")
    if not circle.is_active(key.id):
        raise NotEntitled("this device is not in that circle, or not any more", why=key.id)
    if circles.kept_id(place) not in ("", circle.id):
        raise Refused("this device is in another circle", why=code.grouped(circles.kept_id(place)))
    circle = circles.keep(place, circle, key)
    return Changed(circle, _myself(circle, key), [])


def _not_let_in(home: Holdfast, key: Key, fingerprint: str, *, elsewhere: bool) -> NotThere:
    """No remote shows that the circle let this device in; another one may have."""
    asked = ", ".join(one.name for one in home.store.remotes.all())
    if elsewhere:
        why = f"what {asked} has for this device is of another circle"
        hint = "compare it with the last line of `holdfast devices approve` on the other device"
    else:
        why = f"nothing on {asked} is sealed to its key {key.id}"
        hint = "its code, to be approved on the other device: holdfast devices add; "
        hint += "if that was done, there: holdfast sync"
    what = f"the circle {fingerprint} has not let this device in, as far as can be seen here"
    return NotThere(what, why=why, hint=hint)


def approve(home: Holdfast, device: DeviceCode) -> Changed:
    """Let a device in that showed its code; it can then read everything."""
    now = home.clock.now()
    who = keys.key_id(device.verify)
    return _change(home, lambda c, key: circles.approve(c, key, device, made=now), who)


def revoke(home: Holdfast, which: str) -> Changed:
    """Put a device out: it reads nothing that is written from now on."""
    _, circle = own(home)
    target = meant(circle, which, active=True)
    now = home.clock.now()
    return _change(
        home, lambda c, key: circles.revoke(c, key, target.key_id, made=now), target.key_id
    )


def rename(home: Holdfast, which: str, name: str) -> Changed:
    """Call a device by another name."""
    _, circle = own(home)
    target, now = meant(circle, which), home.clock.now()
    return _change(
        home, lambda c, key: circles.rename(c, key, target.key_id, name, made=now), target.key_id
    )


def _change(
    home: Holdfast, act: Callable[[Circle, Key], Circle], about: str = "", *, recovery: str = ""
) -> Changed:
    with alone(home):
        key, before = own(home)
        circle = kept(home, act(before, key), key, before)
    found = circle.device(about or key.id) or _myself(circle, key)
    if found.key_id == key.id and home.store.remotes.circle():
        home.store.remotes.is_of(circle.id, found.name)
    return Changed(circle, found, spread(home, circle, key), recovery)


def kept(home: Holdfast, circle: Circle, key: Key, before: Circle) -> Circle:
    """Keep what a circle has become; what its devices are called now is told from now on."""
    circle = circles.keep(folder(home), circle, key)
    was = {each.key_id: each.name for each in before.devices()}
    pairs = ((was.get(each.key_id, each.name), each.name) for each in circle.devices())
    if names := {old: new for old, new in pairs if old != new}:
        home.store.remotes.renamed(names, circle.id)
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
        hint = "say which by the beginning of its key: holdfast devices list"
        raise InvalidInput(f"several devices are called {which}", why=why, hint=hint)
    raise InvalidInput(f"there is no device {which}", why=why, hint="holdfast devices list")


# --- remotes ----------------------------------------------------------------------------------


def spread(home: Holdfast, circle: Circle, key: Key) -> list[Spread]:
    """Put the circle on every remote; what cannot be reached now gets it with the next sync."""
    data = circles.encode(circle, key)
    name = names.circle_name(circle.id, data)
    return [_put(known, name, data) for known in home.store.remotes.all()]


def _put(known: Known, name: str, data: bytes) -> Spread:
    try:
        with closing(reached(known)) as there:
            there.put(name, data)
    except HoldfastError as error:
        return Spread(known.name, str(error))
    return Spread(known.name)


def _gathered(home: Holdfast, key: Key, closed: list[str] | None = None) -> list[Circle]:
    """Every circle that a key opens on any remote, each with all that is told of it.

    The names of what it does not open come to `closed`.
    """
    known = home.store.remotes.all()
    if not known:
        raise InvalidInput(
            "there is no remote to look at",
            hint="holdfast remote add usb folder:/media/usb/holdfast",
        )
    found: dict[str, Circle] = {}
    failed: list[HoldfastError] = []
    for each in known:
        try:
            failed += _gather(each, key, found, [] if closed is None else closed)
        except HoldfastError as error:
            failed.append(error)
    if failed and not found:
        raise failed[0]
    return list(found.values())


def _gather(
    known: Known, key: Key, found: dict[str, Circle], closed: list[str]
) -> list[HoldfastError]:
    """Add what a remote tells; what no device wrote is passed over, and returned as errors."""
    wrong: list[HoldfastError] = []
    with closing(reached(known)) as there:
        for each in there.list(names.CIRCLES):
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
        hint="holdfast remote list; on a device that is in the circle: holdfast sync",
    )
