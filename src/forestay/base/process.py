"""Identify processes and machines uniquely, and find out whether a process is alive.

A `ProcessId` names one process for ever: boot, pid namespace, pid and start time together
are never reused, although a pid alone is, within minutes. *Liveness* is "alive", "dead", or
"unknown" where this process cannot see the other one (another host, another namespace). A *machine
id* is stable but does not reveal the system's own id.

Linux has these facts in /proc; on macOS `ps`, `sysctl` and `ioreg` print them, the only programs
started here.
"""

from __future__ import annotations

import os
import sys

from forestay.base import files
from forestay.base.hashing import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Row = tuple[int, str, int, int]  # pid, state, parent, start

INIT = 1
"""The first process of every pid namespace, from which all others descend."""
_HEX = frozenset("0123456789abcdef")

# Neither machine nor boot changes while a process lives, not even across a fork.
_known: dict[str, str] = {}


class ProcessId:
    """One process, identified for ever. `str` gives the stored form, `parse` reads it."""

    __slots__ = ("_machine", "boot", "ns", "pid", "start")

    def __init__(self, boot: str, ns: str, pid: int, start: int, machine: str = "") -> None:
        self.boot, self.ns, self.pid, self.start = boot, ns, pid, start
        self._machine = machine

    @property
    def machine(self) -> str:
        """Return the id of the process's machine; computed on first use, because that is slow."""
        return self._machine or machine_id()

    @classmethod
    def parse(cls, text: str) -> ProcessId:
        machine, boot, ns, pid, start = text.split("/")
        return cls(boot, ns, int(pid), int(start), machine)

    def __str__(self) -> str:
        return f"{self.machine}/{self.boot}/{self.ns}/{self.pid}/{self.start}"

    def __repr__(self) -> str:
        return f"ProcessId({str(self)!r})"

    def _key(self) -> tuple[str, str, int, int]:
        return self.boot, self.ns, self.pid, self.start  # a boot id implies its machine

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessId) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def identity(pid: int | None = None) -> ProcessId | None:
    """Return the process that has this number now (default: this one); None if there is none."""
    row = _process(os.getpid() if pid is None else pid)
    if row is None or row[1] == "Z":
        return None
    return ProcessId(*_boot_and_namespace(), row[0], row[3])


def process_id_from_report(pid: int, start: int, boot: str, init: str) -> ProcessId | None:
    """Return the process that a hook script reported, which may have ended; None if unknown.

    A script knows when a process started but not its namespace; `init`, the start time of the first
    process, identifies that. Outside Linux a script knows only the number.
    """
    if not start or boot == "-":
        return identity(pid) if pid > 0 and sys.platform == "darwin" else None
    first = _process(INIT)
    here, namespace = _boot_and_namespace()
    is_same_namespace = boot == here and init == (str(first[3]) if first else "-")
    return ProcessId(boot, namespace if is_same_namespace else f"init{init}", pid, start)


def pid_exists(pid: int) -> bool:
    """Return whether any process has this number, be it the original one or a later one."""
    return identity(pid) is not None or (pid > 0 and _process(pid) is None and _is_hidden(pid))


def ancestors(limit: int = 64, *, pid: int | None = None) -> list[ProcessId]:
    """Return a process (default: this one), its parent and so on, as far as visible."""
    boot, namespace = _boot_and_namespace()
    found: list[ProcessId] = []
    row = _process(os.getpid() if pid is None else pid)
    while row is not None and len(found) < limit:
        found.append(ProcessId(boot, namespace, row[0], row[3]))
        child, row = row, _process(row[2])
        # A parent younger than its child is another process that was given the number later.
        if row is not None and row[3] > child[3]:
            break
    return found


def find_same_agent(held: Sequence[str]) -> set[str]:
    """Return this process's ancestors, and the processes in `held` that the same agent started."""
    if not held:
        return set()
    ours = set(map(str, ancestors()))
    agents = ours.intersection(held)
    return ours | {process for process in held if agents and _ancestors_of(process) & agents}


def _ancestors_of(process: str) -> set[str]:
    try:
        found = list(map(str, ancestors(pid=ProcessId.parse(process).pid)))
    except ValueError:
        return set()
    # On another machine or in another namespace the number belongs to another process.
    return set(found) if found[:1] == [process] else set()


def liveness(process: ProcessId) -> str:
    """Return "alive", "dead", or "unknown" for a process that cannot be seen from here."""
    boot, namespace = _boot_and_namespace()
    if not (boot and namespace and process.boot and process.ns and process.pid > 0):
        return "unknown"
    if process.boot != boot:
        return "dead" if process.machine == machine_id() else "unknown"
    if process.ns != namespace:
        return "unknown"
    row = _process(process.pid)
    if row is None:
        return "unknown" if _is_hidden(process.pid) else "dead"
    return "alive" if row[3] == process.start and row[1] != "Z" else "dead"


def machine_id() -> str:
    """Return a stable name for this machine that does not reveal its real id."""
    if "machine" not in _known:
        raw = _machine_file() or _mac_machine() or f"host {os.uname().nodename}"
        _known["machine"] = sha256(f"forestay machine\0{raw}".encode()).hexdigest()[:32]
    return _known["machine"]


def device_name() -> str:
    """Return the host name in letters, digits, dots, dashes and underscores."""
    name = os.uname().nodename.removesuffix(".local").removesuffix(".lan")
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name)
    return plain.strip("-.")[:63] or "device"


def _process(pid: int) -> Row | None:
    if pid <= 0:
        return None
    return _mac_process(pid) if sys.platform == "darwin" else _linux_process(pid)


def _is_hidden(pid: int) -> bool:
    """Return whether a process exists although the system does not list it for this user."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _boot_and_namespace() -> tuple[str, str]:
    """Return boot id and pid namespace; each is empty if it cannot be determined."""
    if sys.platform == "darwin":
        return _mac_boot(), "-"
    boot = files.read_text("/proc/sys/kernel/random/boot_id") or ""
    try:
        # The /proc of another namespace is useless: its process numbers differ from ours.
        if os.readlink("/proc/self") != str(os.getpid()):
            return boot, ""
        return boot, os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return boot, ""


def _linux_process(pid: int) -> Row | None:
    text = files.read_text(f"/proc/{pid}/stat")
    if not text:
        return None
    # The name is in parentheses and may hold anything, parentheses and spaces too.
    fields = text[text.rfind(")") + 1 :].split()
    state = "Z" if fields[0] in "ZXx" else fields[0]
    return pid, state, int(fields[1]), int(fields[19])


def _machine_file() -> str:
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        text = files.read_text(path) or ""
        if len(text) == 32 and _HEX.issuperset(text):  # it may also hold "uninitialized"
            return text
    return ""


def _mac_process(pid: int) -> Row | None:
    import calendar
    import time

    line = _mac_output("ps", "-o", "state=,ppid=,lstart=", "-p", str(pid))
    if not line.strip():
        return None
    state, parent, *started = line.split()
    at = time.strptime(" ".join(started), "%a %b %d %H:%M:%S %Y")
    return pid, state[0], int(parent), calendar.timegm(at)


def _mac_boot() -> str:
    if "boot" not in _known:
        # Not kern.boottime: that one moves whenever the clock is set.
        _known["boot"] = _mac_output("sysctl", "-n", "kern.bootsessionuuid").strip().lower()
    return _known["boot"]


def _mac_machine() -> str:
    if sys.platform != "darwin":
        return ""
    answer = _mac_output("ioreg", "-rd1", "-c", "IOPlatformExpertDevice")
    return answer.partition('"IOPlatformUUID" = "')[2].partition('"')[0]


def _mac_output(*command: str) -> str:
    import subprocess

    # `ps` prints start times in local time, which changes twice a year: ask for UTC.
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", "TZ": "UTC"}
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=2
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("ascii", "replace")
