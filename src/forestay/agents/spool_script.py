"""The spool script that agents run at each hook.

The script (`spool.sh`) writes the payload into the spool and exits; `payloads` parses it later and
`ingest` records it, so an agent never waits for us. The script is copied into the home with its
settings filled in, so that it has nothing to look up when it runs.

How durable a payload is depends on the tools of the system, tried once (`probe_sync`):

    d   the file is synced by `dd` while it is written, the folder by `sync FOLDER`
    f   both by `sync PATH`, which costs one more process
        neither: payloads of the last seconds before a power cut can be lost
"""

from __future__ import annotations

import os

from forestay.agents.spool import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# Full paths instead of PATH: a project could put its own `mv` there.
_PLACES = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
_TOOLS = ("cat", "date", "dd", "mkdir", "mv", "rm", "wc")


def spool_script(home: str, program: Sequence[str], *, sync: str) -> bytes:
    """Return the script for a home; `program` runs Forestay, `sync` is a result of `probe_sync`."""
    from shlex import quote

    with open(os.path.join(os.path.dirname(__file__), "spool.sh"), encoding="utf-8") as file:
        text = file.read()
    values = {
        "SPOOL": quote(os.path.join(os.path.abspath(home), FOLDER)),
        "SYNC": quote(sync),
        "PROGRAM": " ".join(map(quote, program)),
        "SYNC_TOOL": quote(_tool("sync")),
        "SETSID": quote(_found("setsid")),
        **{tool.upper(): quote(_tool(tool)) for tool in _TOOLS},
    }
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text.encode("utf-8", "surrogateescape")


def probe_sync() -> str:
    """Try which way of syncing works on this system; return "d", "f", or "" for none."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "payload")
        if not _syncs(folder, file):
            return ""
        written = _runs(_tool("dd"), "bs=65536", "conv=fdatasync", f"of={file}")
        return "d" if written else "f"


def _syncs(folder: str, file: str) -> bool:
    """Return whether `sync` accepts paths; older versions ignore them, even missing ones."""
    with open(file, "wb"):
        pass
    sync = _tool("sync")
    return _runs(sync, file) and _runs(sync, folder) and not _runs(sync, f"{file}.not-there")


def _runs(*command: str) -> bool:
    import subprocess

    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _tool(name: str) -> str:
    return _found(name) or name


def _found(name: str) -> str:
    paths = (os.path.join(place, name) for place in _PLACES)
    return next((path for path in paths if os.access(path, os.X_OK)), "")
