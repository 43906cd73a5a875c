"""Commands for keys, devices and sharing: who can read your sessions.

The devices of one person form a *device group*. Its fingerprint is what people compare.
"""

from __future__ import annotations

from forestay.api.values import DeviceChange
from forestay.base.clock import to_ms
from forestay.base.text import ago
from forestay.cli.arguments import Command, arg, flag
from forestay.errors import InvalidInput, Refused
from forestay.sync import keychain
from forestay.sync.crypto.key_text import (
    grouped,
    read_device_code,
    read_person_key,
    same_fingerprint,
)
from forestay.sync.keychain import find_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.api.values import Delivery, SharingInfo
    from forestay.base.words import ShareMode
    from forestay.cli.types import Forestay, Namespace, Part, Screen
    from forestay.sync.crypto.device_group import DeviceGroup

_PLACES = {
    "file": "in a file that only you can read",
    "passphrase": "protected by a passphrase",
    "keyring": "in the system keyring",
}
_ACCESS = {"read": "read all of", "continue": "read and continue"}
_MODES = {"read": "can read it", "continue": "can read and continue it"}
_RECOVERY = """
  {0.recovery}

This is your recovery code. It is shown only now: write it on paper.
With it and a remote you can recover everything if you lose all your devices;
anyone else who has it can read everything, too. Write down with it the
fingerprint of your device group, to compare then: {0.fingerprint}"""
_REQUEST = """On a device that is in your device group, type:

  forestay device approve {0.code}

It shows a fingerprint, which must be this: {0.device.fingerprint}
Then type on this device the line that it prints, which begins with:

  forestay device add --confirm"""


def _require_yes(
    options: Namespace, what: str, condition: str, screen: Screen, fingerprint: str = ""
) -> None:
    """Ask the user to confirm `what` if `condition` holds, unless --yes is given.

    Raise Refused if there is no terminal to ask on.
    """
    if options.yes:
        return
    message = f"not confirmed: {what}" + (f"; fingerprint {fingerprint}" if fingerprint else "")
    refusal = Refused(message, hint=f"if {condition}, repeat the command with --yes")
    mark: list[Part] = ["  fingerprint  ", (fingerprint, "bold")] if fingerprint else []
    screen.require_yes(f"if {condition}", refusal, [what], mark)


# -- keys --------------------------------------------------------------------------------------


def run_init(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if options.passphrase and options.keyring:
        raise InvalidInput("use --passphrase or --keyring, not both")
    words = screen.ask_new_passphrase() if options.passphrase else ""
    changed = stay.devices.keys.init(passphrase=words, keyring=options.keyring)
    kept = "keyring" if options.keyring else "passphrase" if words else "file"
    screen.answer(changed, kept=kept)
    if not changed.recovery:
        screen.done("the key of this device is now stored ", _PLACES[kept])
        return
    screen.done(("created ", "green"), f"the key of {changed.device.name}, ", _PLACES[kept])
    screen.block(_RECOVERY.format(changed))
    screen.hint("next: ", "forestay remote add usb folder:/media/usb/forestay")


def run_show(options: Namespace, stay: Forestay, screen: Screen) -> None:
    found = stay.devices.keys.show().as_json()
    screen.answer(found)
    screen.fields(
        [
            ("device", found.get("name") or ""),
            ("key", found["id"]),
            ("stored", f"{_PLACES[found['kept']]}: {found['file']}"),
            ("device group", found["circle_fingerprint"] or "none yet"),
            ("person key", found.get("person") or ""),
            ("fingerprint", found.get("person_fingerprint") or ""),
        ]
    )
    if found.get("person"):
        people = "Give the person key to people who want to share a session with you, and compare"
        screen.prose("", f"{people} the fingerprint with them in another way, such as by phone.")
    elif found.get("locked"):
        screen.line(("the rest is shown only with the passphrase: set FORESTAY_PASSPHRASE", "dim"))
    else:
        screen.hint("join a device group: ", "forestay device add")


def run_export(options: Namespace, stay: Forestay, screen: Screen) -> None:
    id = stay.devices.keys.export(options.file, screen.ask_new_passphrase())
    screen.answer(key=id, file=options.file)
    screen.done(("wrote ", "green"), options.file, ", the key of this device, with a passphrase")
    screen.hint("on the other device: ", f"forestay device key import {options.file}")


def run_import(options: Namespace, stay: Forestay, screen: Screen) -> None:
    changed = stay.devices.keys.import_(options.file)
    screen.answer(changed)
    screen.done(("imported ", "green"), f"the key {changed.device.key}, {changed.device.name}")
    screen.done("Its passphrase still protects it. If the other device is still in use, create")
    screen.done("a separate key for this one: ", ("forestay device add --new-key", "cyan"))


def run_recover(options: Namespace, stay: Forestay, screen: Screen) -> None:
    typed = " ".join(options.code) or screen.ask_secret("recovery code: ")
    if typed == "-":
        typed = screen.source.readline(4096)
    if not typed.strip():
        hint = "a terminal asks for it; from a pipe: forestay device key recover -"
        raise InvalidInput("the recovery code is missing", hint=hint)

    def compare(circle: DeviceGroup) -> None:
        """Ask the user to compare fingerprints: the remote could present another group."""
        if options.confirm:
            if not same_fingerprint(options.confirm, circle.fingerprint):
                why = f"it opens {circle.fingerprint}, not {options.confirm}"
                hint = "compare both with what you wrote down with the code; forestay remote list"
                what = "the recovery code opens another device group"
                raise InvalidInput(what, why=why, hint=hint)
            return
        names = ", ".join(each.name for each in circle.devices() if each.active)
        asked = f"the code opens the device group {circle.fingerprint}, with these devices: {names}"
        _require_yes(options, asked, "this is yours", screen)

    changed = stay.devices.keys.recover(typed, agree=compare)
    screen.answer(changed)
    where = f" as {changed.device.name}"
    screen.done(("back in your device group ", "green"), changed.fingerprint, where)
    _warn_remotes(changed.remotes, screen)
    if sum(each.active for each in stay.devices.list().devices) > 1:
        screen.done("If other devices are lost, revoke them: forestay device revoke NAME")
    screen.hint("next: ", "forestay sync")


def run_rotate(options: Namespace, stay: Forestay, screen: Screen) -> None:
    changed = stay.devices.keys.rotate(recovery=options.recovery)
    screen.answer(changed)
    number = changed.epoch
    screen.done(("new keys: ", "green"), f"epoch {number}; the old keys still open older data")
    _warn_remotes(changed.remotes, screen)
    if changed.recovery:
        screen.block(_RECOVERY.format(changed))
        screen.line("The old recovery code cannot open anything written from now on.")


# -- devices -----------------------------------------------------------------------------------


def run_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    group = stay.devices.list()
    screen.answer(group)
    now = stay.context.clock.now()
    rows: list[list[Part]] = []
    for device in group.devices:
        verb, at = ("revoked", device.revoked) if device.revoked else ("approved", device.added)
        mark = "this device" if device.this else ""
        name = (device.name, "" if device.active else "dim")
        rows.append([name, (device.key, "dim"), f"{verb} {ago(now - to_ms(at))}", mark])
    screen.table(rows)
    screen.line(("device group ", "dim"), group.fingerprint)


def run_add(options: Namespace, stay: Forestay, screen: Screen) -> None:
    found = stay.devices.add(confirm=options.confirm, new_key=options.new_key)
    if isinstance(found, DeviceChange):
        screen.answer(found)
        joined = f"{found.fingerprint} as {found.device.name}"
        screen.done(("in the device group ", "green"), joined)
        screen.hint("next: ", "forestay sync")
        return
    screen.answer(code=found.code, fingerprint=found.device.fingerprint, key=found.key_id)
    screen.block(_REQUEST.format(found))


def run_approve(options: Namespace, stay: Forestay, screen: Screen) -> None:
    device = read_device_code(options.code)
    same = "that device shows the same"
    _require_yes(options, f"{device.name} asks to join", same, screen, device.fingerprint)
    changed = stay.devices.approve(options.code)
    confirm = f"forestay device add --confirm {changed.fingerprint}"
    screen.answer(changed, confirm=confirm)
    screen.done(("approved ", "green"), f"{changed.device.name} ({changed.device.key})")
    _warn_remotes(changed.remotes, screen)
    screen.block(f"On the new device, type:\n\n  {confirm}")


def run_revoke(options: Namespace, stay: Forestay, screen: Screen) -> None:
    circle, own = keychain.devices(stay.context)
    device = find_device(circle, options.device, active=True)
    if device.key_id == own:
        hint = "to revoke it, run the same command on another device"
        raise Refused(f"{device.name} is this device, which cannot revoke itself", hint=hint)
    asked = f"{device.name} ({device.key_id}) will be revoked permanently"
    _require_yes(options, asked, "it is to be revoked", screen)
    changed = stay.devices.revoke(options.device)
    screen.answer(changed)
    screen.done(("revoked ", "green"), f"{changed.device.name} ({changed.device.key})")
    screen.done("It cannot read what is written from now on. What it has read, it still has.")
    _warn_remotes(changed.remotes, screen)
    screen.hint("give sessions new keys now: ", "forestay sync --push")


def run_rename(options: Namespace, stay: Forestay, screen: Screen) -> None:
    changed = stay.devices.rename(options.device, options.name)
    screen.answer(changed)
    screen.done("now called ", changed.device.name)
    _warn_remotes(changed.remotes, screen)


def _warn_remotes(remotes: list[Delivery], screen: Screen) -> None:
    """Warn about the remotes that the change has not reached."""
    for each in remotes:
        if each.error:
            late = f"{each.remote} does not have it yet ({each.error}); to retry: forestay sync"
            screen.warn(("but ", "yellow"), late)


# -- sharing -----------------------------------------------------------------------------------


def run_share(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.session(options.which).id if options.which else stay.current().id
    person = read_person_key(options.person)
    mode: ShareMode | None = "read" if options.read else None
    if getattr(options, "continue"):
        mode = "continue"
    who = options.email or "the person with this key"
    asked = f"{who} would {_ACCESS[mode or 'read']} session {session}, from its beginning"
    same = "they see the same with `forestay device key show`"
    _require_yes(options, asked, same, screen, person.fingerprint)
    shared = stay.shares.add(session, options.person, mode=mode, email=options.email)
    _print_shared(shared, screen, f"shared {session}: {options.email or person.fingerprint}")
    screen.hint("they type: ", "forestay remote add NAME ADDRESS && forestay sync --pull")


def run_shares(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.session(options.which).id if options.which else stay.current().id
    shared = stay.shares.list(session)
    if owner := stay.shares.owner(shared.owner):
        screen.line("  shared with you by ", owner)
    _print_shared(shared, screen)
    if not shared.members:
        screen.line("not shared")
        screen.hint("share it: ", "forestay share add --with fsp1…")


def run_unshare(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.session(options.which).id
    shared = stay.shares.remove(session, options.who)
    _print_shared(shared, screen, f"no longer shared with {options.who}: {session}")
    screen.done("They cannot read what is written from now on. What they have read, they still")
    screen.done("have, and copies of it stay readable; that cannot be undone.")


def _print_shared(shared: SharingInfo, screen: Screen, done: str = "") -> None:
    """Print what was done, the people a session is shared with, and remotes that are late."""
    screen.answer(shared)
    if done:
        screen.done((done, "green"))
    rows: list[list[Part]] = [
        [each.email or grouped(each.circle), _MODES[each.mode], (each.circle[:16], "dim")]
        for each in shared.members
    ]
    screen.table(rows, indent=2)
    _warn_remotes(shared.remotes, screen)


_YES = flag("--yes", "do not ask; the fingerprint has been compared")
_DEVICE = arg("device", "DEVICE", "its name, or the beginning of its id")
_WHICH = arg("which?", "SESSION", "default: the current session")
_FILE = arg("file", "FILE", "the file with the exported key")

COMMANDS = {
    "device key init": Command(
        run_init,
        flag("--passphrase", "protect the key with a passphrase"),
        flag("--keyring", "store it in the system keyring"),
        "forestay device key init",
        "forestay device key init --passphrase",
    ),
    "device key show": Command(run_show, "forestay device key show"),
    "device key export": Command(run_export, _FILE, "forestay device key export laptop.key"),
    "device key import": Command(run_import, _FILE, "forestay device key import laptop.key"),
    "device key recover": Command(
        run_recover,
        arg("code*", "CODE", "the recovery code; - reads it from stdin"),
        arg("--confirm", "FINGERPRINT", "accept only this device group"),
        _YES,
        "forestay device key recover",
        "forestay device key recover - --confirm ab12-cd34-ef56-7890-ab12",
    ),
    "device key rotate": Command(
        run_rotate,
        flag("--recovery", "also create a new recovery code"),
        "forestay device key rotate",
        "forestay device key rotate --recovery",
    ),
    "device list": Command(run_list, "forestay device list"),
    "device add": Command(
        run_add,
        arg("--confirm", "FINGERPRINT", "join this device group"),
        flag("--new-key", "create another key first; the old one is not deleted"),
        "forestay device add",
        "forestay device add --confirm ab12-cd34-ef56-7890-ab12",
    ),
    "device approve": Command(
        run_approve,
        arg("code", "CODE", "what `forestay device add` shows on the new device"),
        _YES,
        "forestay device approve fsd1q2w3e4r5t6y7",
    ),
    "device revoke": Command(
        run_revoke,
        _DEVICE,
        flag("--yes", "do not ask"),
        "forestay device revoke laptop",
        "forestay device revoke 3f2a --yes",
    ),
    "device rename": Command(
        run_rename,
        _DEVICE,
        arg("name", "NEW", "the new name"),
        "forestay device rename laptop old-laptop",
    ),
    "share list": Command(run_shares, _WHICH, "forestay share list"),
    "share add": Command(
        run_share,
        _WHICH,
        arg("--with", "KEY", "their key, fsp1…", dest="person", required=True),
        arg("--email", "ADDRESS", "a name for them on this device"),
        flag("--read", "allow reading; the default for a new person", group="mode"),
        flag("--continue", "allow reading and adding to it", group="mode"),
        _YES,
        "forestay share add fix-login --with fsp1q2w3e4 --email bob@example.org --continue",
    ),
    "share remove": Command(
        run_unshare,
        arg("which", "SESSION", "the session that is shared"),
        arg("who", "WHO", "their address, key, or fingerprint"),
        "forestay share remove fix-login bob@example.org",
    ),
}
