"""Keys and devices: making, showing, moving and replacing keys; who is in the circle."""

from __future__ import annotations

from forestay.base.clock import ago
from forestay.base.config import passphrase
from forestay.cli.arguments import Command, Parser, nothing
from forestay.errors import InvalidInput, Refused
from forestay.sync.crypto.key_text import read_device_code, same_fingerprint
from forestay.sync.keychain import Changed, meant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.cli.terminal import Screen
    from forestay.sync.crypto.device_group import Circle, Device
    from forestay.sync.keychain import Asking, Changed

_ELSEWHERE = "type the same on another device, if this one is to go"
_KEPT = {
    "file": "in a file that only you can read",
    "passphrase": "in a passphrase",
    "keyring": "in the system keyring",
}


# -- passphrases ---------------------------------------------------------------------------------


def passphrase_of_key(screen: Screen) -> str:
    """The passphrase from the environment, else typed on the terminal; "" where there is none."""
    return passphrase() or _typed("passphrase: ", screen)


def new_passphrase(screen: Screen) -> str:
    """A passphrase to wrap something in: typed twice where it is typed."""
    given = passphrase()
    if given:
        return given
    first = _typed("new passphrase: ", screen)
    if not first:
        raise InvalidInput(
            "there is no passphrase",
            why="it is never taken from the command line, where others could read it",
            hint="set FORESTAY_PASSPHRASE, or run it in a terminal, where it is asked for",
        )
    if _typed("the same again: ", screen) != first:
        raise InvalidInput("the two passphrases differ", hint="try again")
    return first


def _typed(prompt: str, screen: Screen) -> str:
    """What someone types unseen on a terminal; "" where there is none."""
    if screen.json or not screen.source.isatty():
        return ""
    import sys

    if screen.source is sys.stdin:
        from getpass import getpass

        return getpass(prompt, screen.err)
    screen.err.write(prompt)
    return screen.source.readline().rstrip("\r\n")


# -- key -----------------------------------------------------------------------------------------


def _init_arguments(parser: Parser) -> None:
    parser.add_argument("--passphrase", action="store_true", help="wrap the key in a passphrase")
    parser.add_argument("--keyring", action="store_true", help="keep it in the system keyring")


def run_init(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if options.passphrase and options.keyring:
        raise InvalidInput("a key is kept in a passphrase or in the keyring, not in both")
    words = new_passphrase(screen) if options.passphrase else ""
    changed = stay.devices.keys.init(passphrase=words, keyring=options.keyring)
    kept = "keyring" if options.keyring else "passphrase" if words else "file"
    screen.answer({**_values(changed), "kept": kept})
    if not changed.recovery:
        screen.done("the key of this device is now kept ", _KEPT[kept])
        return
    screen.done(("made ", "green"), f"the key of this device, {changed.device.name}, ", _KEPT[kept])
    _tell_recovery(changed, screen)
    screen.hint("next: ", "forestay remote add usb folder:/media/usb/forestay")


def _tell_recovery(changed: Changed, screen: Screen) -> None:
    """The one time that a recovery code is shown."""
    screen.line()
    screen.line(("  ", ""), (changed.recovery, "bold"))
    screen.line()
    screen.line("This is your recovery code, and it is shown only now. Write it on paper.")
    screen.line("With it and a remote you get everything back if all your devices are lost;")
    screen.line("whoever else has it can read everything, too. Write beside it the fingerprint of")
    screen.line("your circle, which is shown to you then: ", changed.circle.fingerprint)


def run_show(options: Namespace, stay: Forestay, screen: Screen) -> None:
    found = stay.devices.keys.show()
    screen.answer(found)
    screen.fields(
        [
            ("device", found.get("name") or ""),
            ("key", found["id"]),
            ("kept", f"{_KEPT[found['kept']]}: {found['file']}"),
            ("circle", found["circle_fingerprint"] or "none yet"),
            ("person key", found.get("person") or ""),
            ("fingerprint", found.get("person_fingerprint") or ""),
        ]
    )
    if found.get("person"):
        screen.line(
            ("Give the person key to whoever wants to share a session with you, and", "dim")
        )
        screen.line(
            ("compare the fingerprint with them by another way (by telephone, say).", "dim")
        )
    elif found.get("locked"):
        screen.line(("the rest shows with the passphrase", "dim"))
    else:
        screen.hint("join a circle: ", "forestay device add")


def _file_arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file")


def run_export(options: Namespace, stay: Forestay, screen: Screen) -> None:
    id = stay.devices.keys.export(options.file, new_passphrase(screen))
    screen.answer({"key": id, "file": options.file})
    screen.done(("wrote ", "green"), options.file, ", the key of this device in the passphrase")
    screen.hint("elsewhere: ", f"forestay device key import {options.file}")


def run_import(options: Namespace, stay: Forestay, screen: Screen) -> None:
    changed = stay.devices.keys.import_(options.file)
    screen.answer(_values(changed))
    screen.done(("took over ", "green"), f"the key {changed.device.key_id}, {changed.device.name}")
    screen.done("It stays in its passphrase. If the other device is still in use, let this one")
    screen.done("have a key of its own: ", ("forestay device add --new-key", "cyan"))


def _recover_arguments(parser: Parser) -> None:
    parser.add_argument("code", nargs="*", metavar="CODE", help="the recovery code; - reads it")
    parser.add_argument("--confirm", default="", metavar="CIRCLE", help="only this circle")
    parser.add_argument("--yes", action="store_true", help="the fingerprint was compared")


def run_recover(options: Namespace, stay: Forestay, screen: Screen) -> int:
    typed = " ".join(options.code) or _typed("recovery code: ", screen)
    if typed == "-":
        typed = screen.source.readline(4096)
    if not typed.strip():
        hint = "in a terminal it is asked for; from a pipe: forestay device key recover -"
        raise InvalidInput("no code was given", hint=hint)
    try:
        changed = stay.devices.keys.recover(
            typed, agree=lambda circle: _agree(circle, options, screen)
        )
    except _Declined:
        screen.line("nothing was changed")
        return 1
    screen.answer(_values(changed))
    name = changed.device.name
    screen.done(("back in your circle ", "green"), changed.circle.fingerprint, f" as {name}")
    _tell_spread(changed, screen)
    others = [each for each in changed.circle.devices() if each.active]
    if len(others) > 1:
        screen.done("If other devices are lost, put them out: forestay device revoke NAME")
    screen.hint("next: ", "forestay sync")
    return 0


class _Declined(Exception):
    """Someone was asked, and did not say yes."""


def _agree(circle: Circle, options: Namespace, screen: Screen) -> None:
    """Whoever runs the remote could show something else than what was written there."""
    if options.confirm and not same_fingerprint(options.confirm, circle.fingerprint):
        why = f"it opens {circle.fingerprint}"
        hint = "compare both with what was written beside the code; forestay remote list"
        raise InvalidInput("the recovery code opens another circle", why=why, hint=hint)
    names = ", ".join(each.name for each in circle.devices() if each.active)
    asked = f"the code opens the circle {circle.fingerprint}, of these devices: {names}"
    if options.confirm or options.yes or agreed(asked, "this is yours", screen):
        return
    raise _Declined


def _rotate_arguments(parser: Parser) -> None:
    parser.add_argument("--recovery", action="store_true", help="a new recovery code, too")


def run_rotate(options: Namespace, stay: Forestay, screen: Screen) -> None:
    changed = stay.devices.keys.rotate(recovery=options.recovery)
    screen.answer(_values(changed))
    number = changed.circle.epoch.number
    screen.done(("new keys: ", "green"), f"epoch {number}; what was sealed before stays as it is")
    _tell_spread(changed, screen)
    if changed.recovery:
        _tell_recovery(changed, screen)
        screen.line("The old recovery code opens nothing that is written from now on.")


# -- devices -------------------------------------------------------------------------------------


def run_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    circle, own = stay.devices.list()
    devices = [_device_values(each, own) for each in circle.devices()]
    screen.answer({"circle": circle.id, "fingerprint": circle.fingerprint, "devices": devices})
    rows = [_row(each, own, stay.context.clock.now()) for each in circle.devices()]
    screen.table(rows)
    screen.line(("circle ", "dim"), circle.fingerprint)


def _row(device: Device, own: str, now: int) -> list[str | tuple[str, str]]:
    since = f"let in {ago(now - device.added_at)}"
    out = f"put out {ago(now - device.revoked_at)}"
    style = "" if device.active else "dim"
    mark = "this device" if device.key_id == own else ""
    return [(device.name, style), (device.key_id, "dim"), since if device.active else out, mark]


def _add_arguments(parser: Parser) -> None:
    parser.add_argument("--confirm", default="", metavar="CIRCLE", help="join this circle")
    parser.add_argument(
        "--new-key", action="store_true", help="make another key first; the old one stays beside"
    )


def run_add(options: Namespace, stay: Forestay, screen: Screen) -> None:
    found = stay.devices.add(confirm=options.confirm, new_key=options.new_key)
    if isinstance(found, Changed):
        screen.answer(_values(found))
        joined = f"{found.circle.fingerprint} as {found.device.name}"
        screen.done(("in the circle ", "green"), joined)
        screen.hint("next: ", "forestay sync")
        return
    screen.answer(
        {"code": found.code, "fingerprint": found.device.fingerprint, "key": found.key_id}
    )
    _tell_asking(found, screen)


def _tell_asking(asking: Asking, screen: Screen) -> None:
    screen.line("On a device that is in your circle, type:")
    screen.line()
    screen.line("  ", (f"forestay device approve {asking.code}", "cyan"))
    screen.line()
    screen.line("It shows a fingerprint; this one must be the same: ", asking.device.fingerprint)
    screen.line("Then type here the line that it prints, which begins with:")
    screen.line()
    screen.line("  ", ("forestay device add --confirm", "cyan"))


def _approve_arguments(parser: Parser) -> None:
    parser.add_argument("code", metavar="CODE", help="what `devices add` shows on the new device")
    parser.add_argument("--yes", action="store_true", help="the fingerprint was compared")


def run_approve(options: Namespace, stay: Forestay, screen: Screen) -> int:
    device = read_device_code(options.code)
    asked, same = f"{device.name} asks to be let in", "that device shows the same"
    if not options.yes and not agreed(asked, same, screen, fingerprint=device.fingerprint):
        screen.line("nobody was let in")
        return 1
    changed = stay.devices.approve(options.code)
    confirm = f"forestay device add --confirm {changed.circle.fingerprint}"
    screen.answer({**_values(changed), "confirm": confirm})
    screen.done(("let in ", "green"), f"{changed.device.name} ({changed.device.key_id})")
    _tell_spread(changed, screen)
    screen.line("On the new device, type:")
    screen.line()
    screen.line("  ", (confirm, "cyan"))
    return 0


def _revoke_arguments(parser: Parser) -> None:
    parser.add_argument("device", metavar="DEVICE", help="its name, or the beginning of its id")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run_revoke(options: Namespace, stay: Forestay, screen: Screen) -> int:
    circle, own = stay.devices.list()
    device = meant(circle, options.device, active=True)
    if device.key_id == own:
        raise Refused(f"{device.name} is this device", hint=_ELSEWHERE)
    asked = f"{device.name} ({device.key_id}) would be put out of your circle, for good"
    if not options.yes and not agreed(asked, "it shall be put out", screen):
        screen.line("nobody was put out")
        return 1
    changed = stay.devices.revoke(options.device)
    screen.answer(_values(changed))
    screen.done(("put out ", "green"), f"{changed.device.name} ({changed.device.key_id})")
    screen.done("It reads nothing that is written from now on; what it has read it still has.")
    _tell_spread(changed, screen)
    screen.hint("let sessions have new keys now: ", "forestay sync --push")
    return 0


def _rename_arguments(parser: Parser) -> None:
    parser.add_argument("device", metavar="DEVICE", help="its name, or the beginning of its id")
    parser.add_argument("name", metavar="NEW", help="the new name")


def run_rename(options: Namespace, stay: Forestay, screen: Screen) -> None:
    changed = stay.devices.rename(options.device, options.name)
    screen.answer(_values(changed))
    screen.done("now called ", changed.device.name)
    _tell_spread(changed, screen)


# -- what they share -----------------------------------------------------------------------------


def agreed(what: str, meaning: str, screen: Screen, *, fingerprint: str = "") -> bool:
    """Whether someone at the terminal agrees; refused where nobody can be asked."""
    told = f"{what}; fingerprint {fingerprint}" if fingerprint else what
    if not screen.can_ask:
        raise Refused(told, hint=f"if {meaning}: the same with --yes")
    for line in screen.wrapped(what):
        screen.line(line)
    if fingerprint:
        screen.line("  fingerprint  ", (fingerprint, "bold"))
    return screen.says_yes(f"if {meaning}")


def _values(changed: Changed) -> dict[str, Any]:
    device = changed.device
    return {
        "circle": changed.circle.id,
        "fingerprint": changed.circle.fingerprint,
        "epoch": changed.circle.epoch.number,
        "device": _device_values(device, ""),
        "recovery": changed.recovery or None,
        "remotes": [{"remote": r, "error": error or None} for r, error in changed.spread],
    }


def _device_values(device: Device, own: str) -> dict[str, Any]:
    values = {
        "key": device.key_id,
        "name": device.name,
        "active": device.active,
        "added": device.added_at,
        "revoked": device.revoked_at or None,
    }
    return {**values, "this": device.key_id == own} if own else values


def _tell_spread(changed: Changed, screen: Screen) -> None:
    for each in changed.spread:
        if each.error:
            late = f"{each.remote} does not know yet ({each.error}); it will with: forestay sync"
            screen.aside(("but ", "yellow"), late)


COMMANDS = {
    "device key init": Command(
        _init_arguments,
        run_init,
        "forestay device key init",
        "forestay device key init --passphrase",
    ),
    "device key show": Command(nothing, run_show, "forestay device key show"),
    "device key export": Command(
        _file_arguments, run_export, "forestay device key export laptop.key"
    ),
    "device key import": Command(
        _file_arguments, run_import, "forestay device key import laptop.key"
    ),
    "device key recover": Command(
        _recover_arguments,
        run_recover,
        "forestay device key recover",
        "forestay device key recover - --confirm ab12-cd34-ef56-7890-ab12",
    ),
    "device key rotate": Command(
        _rotate_arguments,
        run_rotate,
        "forestay device key rotate",
        "forestay device key rotate --recovery",
    ),
    "device list": Command(nothing, run_list, "forestay device list"),
    "device add": Command(
        _add_arguments,
        run_add,
        "forestay device add",
        "forestay device add --confirm ab12-cd34-ef56-7890-ab12",
    ),
    "device approve": Command(
        _approve_arguments, run_approve, "forestay device approve fsd1q2w3e4r5t6y7"
    ),
    "device revoke": Command(
        _revoke_arguments,
        run_revoke,
        "forestay device revoke laptop",
        "forestay device revoke 3f2a --yes",
    ),
    "device rename": Command(
        _rename_arguments, run_rename, "forestay device rename laptop old-laptop"
    ),
}
