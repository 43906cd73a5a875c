"""Run real servers for tests, from pip: SeaweedFS, and rclone, which ignores conditions.

One server serves all workers of a run. Each user of it holds a shared lock; a supervisor process
waits for the exclusive lock, which it gets when the last user has ended in any way, and then stops
the server. So no server is left running, and none is stopped while it is in use.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

KEY, SECRET, BUCKET = "canarykeyid", "canarysecretkey", "forestay-tests"
_TIMEOUT_SECONDS = 60.0


class Server(NamedTuple):
    """Hold the address and the credentials of a running server."""

    endpoint: str
    key: str = KEY
    secret: str = SECRET
    bucket: str = BUCKET

    def address(self, prefix: str) -> str:
        return f"s3://{self.bucket}/{prefix}?endpoint={self.endpoint}"

    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "NO_PROXY": "127.0.0.1",
        }


def folder_of_run(factory: pytest.TempPathFactory) -> Path:
    """Return a folder shared by all workers of this run."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@contextmanager
def bucket(folder: Path) -> Iterator[Server]:
    """Provide SeaweedFS with a bucket."""
    with shared("seaweedfs", seaweedfs, folder) as server:
        make_bucket((folder / "seaweedfs" / "filer").read_text())
        yield server


@contextmanager
def shared(name: str, start: Callable[[Path], list[str]], folder: Path) -> Iterator[Server]:
    """Provide the server of this name; the first user starts it. `start` returns its command."""
    place = folder / name
    place.mkdir(exist_ok=True, mode=0o700)
    with open(place / "users", "a") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        with open(place / "begin", "a") as begin:
            fcntl.flock(begin, fcntl.LOCK_EX)
            endpoint_file = place / "endpoint"
            if not endpoint_file.exists() or not _is_up(endpoint_file.read_text()):
                endpoint_file.write_text(_start_server(place, start))
        yield Server(endpoint_file.read_text())


def _start_server(place: Path, start: Callable[[Path], list[str]]) -> str:
    """Start a supervisor, which starts the server; return the server's address."""
    for _ in range(3):  # another process may use a port that was just free
        supervisor = _spawn(place, start(place))
        endpoint = (place / "answers").read_text()
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not os.waitpid(supervisor, os.WNOHANG)[0] and time.monotonic() < deadline:
            if _is_up(endpoint) and not os.waitpid(supervisor, os.WNOHANG)[0]:
                return endpoint
            time.sleep(0.1)
    pytest.skip(f"{place.name} does not run here: {(place / 'log').read_text()[-300:]}")


def _spawn(place: Path, command: list[str]) -> int:
    log = os.open(place / "log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        # Not with Popen, which warns of a child that outlives it; this one should.
        return os.posix_spawn(
            sys.executable,
            [sys.executable, __file__, str(place), *command],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)],
            setsid=True,
        )
    finally:
        os.close(log)


def _is_up(endpoint: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(endpoint, timeout=2).close()
    except urllib.error.HTTPError as error:
        error.close()
        return True  # it requires a signature, so it is up
    except OSError:
        return False
    return True


def supervise(place: str, command: list[str]) -> None:
    """Run the server until it has no users (the supervisor's work)."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as server:
        with open(os.path.join(place, "users"), "a") as users:
            while server.poll() is None:
                try:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    server.send_signal(signal.SIGKILL)
                    break
                except BlockingIOError:
                    time.sleep(0.2)


def free_ports(count: int) -> list[int]:
    """Return free ports, below the range that systems assign to outgoing connections."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        found += [port] if port not in found else []
    return found


def program(name: str) -> str:
    found = shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)
    return found or pytest.skip(f"{name} is not installed; make venv installs it")


def seaweedfs(place: Path) -> list[str]:
    (place / "data").mkdir(exist_ok=True)
    rights = ["Admin", "Read", "Write", "List", "Tagging"]
    keys = [{"accessKey": KEY, "secretKey": SECRET}]
    identity = {"name": "tests", "credentials": keys, "actions": rights}
    (place / "identity.json").write_text(json.dumps({"identities": [identity]}))
    names = ["master", "volume", "filer", "s3"]
    ports = dict(zip([*names, *(f"{name}.grpc" for name in names)], free_ports(8), strict=True))
    (place / "answers").write_text(f"http://127.0.0.1:{ports['s3']}")
    (place / "filer").write_text(f"http://127.0.0.1:{ports['filer']}")
    return [
        program("weed"),
        "server",
        f"-dir={place / 'data'}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-filer=true",
        "-s3=true",
        f"-s3.config={place / 'identity.json'}",
        *(f"-{name}.port={ports[name]}" for name in names),
        *(f"-{name}.port.grpc={ports[f'{name}.grpc']}" for name in names),
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-s3.autoCreateBucket=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=20",
        "-master.telemetry=false",
    ]


def rclone(place: Path) -> list[str]:
    (place / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    (place / "answers").write_text(f"http://127.0.0.1:{port}")
    return [
        *(program("rclone"), "serve", "s3", str(place / "data"), f"--addr=127.0.0.1:{port}"),
        *(f"--auth-key={KEY},{SECRET}", "--vfs-cache-mode=off", f"--config={place / 'none'}"),
    ]


def make_bucket(filer: str) -> None:
    """Make the bucket, a folder of SeaweedFS's filer; repeat until the filer is ready."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        try:
            request = urllib.request.Request(f"{filer}/buckets/{BUCKET}/", method="POST")
            opener.open(request, timeout=5).close()
            return
        except OSError as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
                if error.code == 409:
                    return  # another worker was faster
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


if __name__ == "__main__":
    supervise(sys.argv[1], sys.argv[2:])
