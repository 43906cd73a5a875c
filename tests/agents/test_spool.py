"""The spool script: an agent's hook costs next to nothing, never fails, and loses nothing."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from forestay.agents import spool_script
from forestay.agents.spool import BAD, LIMIT, NEW, TMP, Spool, Spooled

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

PAYLOAD = b'{"session_id": "7f1d", "hook_event_name": "PostToolUse"}'


class Script:
    """The script of a home, and the payloads that it stored."""

    def __init__(self, home: Path, sync: str = "", program: Sequence[str] = ("/bin/false",)):
        self.home, self.spool = home, Spool(str(home))
        self.path = home.parent / "spool.sh"
        self.path.write_bytes(spool_script.spool_script(str(home), program, sync=sync))

    def run(
        self,
        payload: bytes = PAYLOAD,
        *words: str,
        shell: Sequence[str] = ("/bin/sh",),
        **more: object,
    ) -> subprocess.CompletedProcess[bytes]:
        command = [*shell, str(self.path), *(words or ("claude-code", "PostToolUse"))]
        return subprocess.run(command, input=payload, capture_output=True, **more)  # type: ignore[call-overload, no-any-return]

    def quietly(self, payload: bytes = PAYLOAD, *words: str, **more: object) -> None:
        done = self.run(payload, *words, **more)  # type: ignore[arg-type]
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def kept(self) -> list[Spooled]:
        found = [self.spool.read(one.name) for one in self.spool.waiting()]
        return [one for one in found if one is not None]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    Spool(str(home)).prepare()
    return Script(home)


@pytest.mark.parametrize("sync", ["d", "f", ""])
def test_payload_is_stored_byte_for_byte_with_its_sender(script: Script, sync: str) -> None:
    script = Script(script.home, sync)
    script.quietly(b'{"a": "\xc3\xa4\xff\x00"}\n\n')
    (kept,) = script.kept()
    assert kept.data == b'{"a": "\xc3\xa4\xff\x00"}\n\n'
    assert (kept.sender.agent, kept.sender.event, kept.sender.pid) == (
        "claude-code",
        "PostToolUse",
        os.getpid(),
    )
    assert kept.sender.start == start_of(os.getpid()) and kept.sender.init == str(start_of(1))
    assert kept.sender.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert script.spool.count(TMP) == 0


def start_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_probing_finds_a_way_of_syncing_that_works(script: Script) -> None:
    found = spool_script.probe_sync()
    assert found in ("d", "f", "")
    Script(script.home, found).quietly()
    assert [one.data for one in script.kept()] == [PAYLOAD]


def test_spooled_files_are_private_with_any_umask(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    script = Script(home)
    before = os.umask(0)
    try:
        script.quietly()
    finally:
        os.umask(before)
    (name,) = os.listdir(home / "spool" / NEW)
    for path, mode in ((home / "spool", 0o700), (home / "spool" / NEW, 0o700)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE((home / "spool" / NEW / name).stat().st_mode) == 0o600


SHELLS = [("bash", "--posix"), ("bash",), ("busybox", "sh"), ("ksh",), ("zsh", "--emulate", "sh")]


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell[0])])
def test_script_needs_no_particular_shell(script: Script, shell: tuple[str, ...]) -> None:
    script.quietly(b"x" * 40_000_000, shell=shell)
    (kept,) = script.kept()
    assert kept.is_cut and kept.sender.pid == os.getpid()


def test_sender_is_the_agent_and_not_a_shell_between(
    script: Script,
) -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        variables = {**os.environ, "CLAUDE_PID": str(child.pid)}
        script.quietly(env={"CLAUDE_PID": str(child.pid)})
        line = f"/bin/sh {script.path} gemini AfterTool; true"
        subprocess.run(["/bin/sh", "-c", line], input=PAYLOAD, check=True, env=variables)
        claude, gemini = script.kept()
    finally:
        child.kill()
        child.wait()
    assert (claude.sender.pid, claude.sender.start > 0) == (child.pid, True)
    assert (gemini.sender.pid, gemini.sender.start) == (os.getpid(), start_of(os.getpid()))


def test_missing_home_creates_nothing_and_does_not_stop_the_agent(script: Script) -> None:
    shutil.rmtree(script.home)
    script.quietly(b"x" * 1_000_000)
    assert not script.home.exists()


def test_deleted_spool_is_created_again(script: Script) -> None:
    shutil.rmtree(script.home / "spool")
    script.quietly()
    assert [one.data for one in script.kept()] == [PAYLOAD]


def test_unwritable_home_does_not_stop_the_agent(script: Script) -> None:
    # Not by its mode: root may write anyway. A file where the folder should be stops everyone.
    shutil.rmtree(script.home / "spool" / TMP)
    (script.home / "spool" / TMP).write_text("in the way")
    script.quietly(b"x" * 1_000_000)
    assert script.kept() == []
    assert script.spool.lost()[0] == 1


def test_payload_beyond_the_limit_is_cut_and_the_agent_can_write_all_of_it(script: Script) -> None:
    script.quietly(b"x" * 50_000_000)
    (kept,) = script.kept()
    assert kept.is_cut and LIMIT - 200 < len(kept.data) < LIMIT
    assert script.spool.lost()[0] == 0


def test_payload_beyond_the_limit_is_stored_without_a_broken_pipe(script: Script) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    script.quietly(b"x" * 20_000_000, preexec_fn=ignore, restore_signals=False)
    (kept,) = script.kept()
    assert kept.is_cut
    assert script.spool.lost()[0] == 0


def test_payload_that_cannot_be_written_is_counted_and_leaves_no_part(script: Script) -> None:
    def little() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    for _ in range(3):
        script.quietly(b"x" * 100_000, preexec_fn=little, restore_signals=False)
    assert (script.kept(), script.spool.count(TMP)) == ([], 0)
    assert script.spool.lost()[0] == 3


@pytest.mark.parametrize("sync", ["d", ""])
def test_lost_payloads_are_counted_on_a_full_disk(small_disk: Path, sync: str) -> None:
    home = small_disk / "home"
    home.mkdir(mode=0o700)
    Spool(str(home)).prepare()
    script = Script(home, sync)
    fill(small_disk / "filler")
    for _ in range(3):
        script.quietly()
    assert (script.kept(), script.spool.lost()[0]) == ([], 3)


def fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)


@pytest.mark.parametrize("missing", ["dd", "mv", "sync_tool"])
def test_missing_tool_does_not_make_the_hook_fail(script: Script, missing: str) -> None:
    script = Script(script.home, "d")
    text = script.path.read_text()
    script.path.write_text(text.replace(f" {missing}=/", f" {missing}=/not/there/"))
    assert script.path.read_text() != text
    script.quietly()
    lost = script.spool.lost()[0]
    assert (len(script.kept()), lost) == ((1, 0) if missing == "sync_tool" else (0, 1))


def test_script_ignores_the_search_path(script: Script, tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    evil.mkdir()
    for name in ("mv", "dd", "cat", "sync", "rm", "mkdir", "date", "wc", "printf", "read", "["):
        (evil / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/obeyed\n")
        (evil / name).chmod(0o755)
    script.quietly(env={"PATH": str(evil)})
    script.quietly(env={})
    assert len(script.kept()) == 2
    assert not (tmp_path / "obeyed").exists()


def test_home_and_arguments_may_contain_any_characters(tmp_path: Path) -> None:
    home = tmp_path / "it's a 'home' $(touch obeyed) *"
    home.mkdir()
    script = Script(home)
    script.quietly(PAYLOAD, "claude code\n$(touch obeyed)", "*", cwd=str(tmp_path))
    (kept,) = script.kept()
    assert (kept.sender.agent, kept.sender.event, kept.data) == ("", "", PAYLOAD)
    assert sorted(p.name for p in tmp_path.iterdir()) == [home.name, "spool.sh"]


@pytest.mark.parametrize("payload", [b"", b"\n", b"\x00" * 100, b'{"torn": "'])
def test_invalid_payload_is_stored_too(script: Script, payload: bytes) -> None:
    script.quietly(payload)
    assert [one.data for one in script.kept()] == [payload]


def test_many_concurrent_payloads_are_all_spooled(script: Script) -> None:
    line = 'i=0; while [ $i -lt 25 ]; do echo "$1-$i" | /bin/sh $2 codex Stop; i=$((i + 1)); done'
    runs = [
        subprocess.Popen(["/bin/sh", "-c", line, "", str(n), str(script.path)]) for n in range(4)
    ]
    assert [run.wait() for run in runs] == [0] * 4
    text = sorted(one.data.decode().strip() for one in script.kept())
    assert text == sorted(f"{n}-{i}" for n in range(4) for i in range(25))


# -- what is started ---------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program in place of Forestay that writes its arguments to its output and a file."""
    path = tmp_path / "program"
    text = f'echo "$@"; echo "$@" >>{tmp_path}/started; cat >&2; exit 7'
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_start_of_a_session_prints_the_briefing_and_exits_with_0(
    script: Script, program: Path
) -> None:
    script = Script(script.home, program=[str(program), "with a blank"])
    done = script.run(PAYLOAD, "claude-code", "SessionStart")
    (waiting,) = script.spool.waiting()
    assert done.stdout.decode() == f"with a blank hook claude-code --payload {waiting.name}\n"
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("event", ["Stop", "StopFailure", "PreCompact", "SessionEnd", "AfterAgent"])
def test_end_of_a_turn_starts_an_ingest_without_waiting(
    script: Script, program: Path, tmp_path: Path, event: str
) -> None:
    program.write_text(program.read_text().replace("echo", "sleep 1; echo", 1))
    script = Script(script.home, program=[str(program)])
    script.quietly(PAYLOAD, "claude-code", event)
    assert not (tmp_path / "started").exists()
    wait_for(lambda: (tmp_path / "started").exists())
    assert (tmp_path / "started").read_text() == "ingest --quiet\n"


def test_only_one_ingesting_process_is_started(
    script: Script, program: Path, tmp_path: Path
) -> None:
    script = Script(script.home, program=[str(program)])
    lock = script.spool.lock()
    assert lock is not None and script.spool.lock() is None
    script.quietly(PAYLOAD, "claude-code", "Stop")
    time.sleep(0.2)
    assert not (tmp_path / "started").exists()
    script.spool.unlock(lock)
    script.quietly(PAYLOAD, "claude-code", "Stop")
    wait_for(lambda: (tmp_path / "started").exists())


def wait_for(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


# -- the folder --------------------------------------------------------------------------------


def test_order_is_by_time_then_by_name(script: Script) -> None:
    folder = script.home / "spool" / NEW
    for name, ns in (("b", 2_000_000_001), ("c", 1), ("a", 2_000_000_001), ("d", 2_000_000_000)):
        (folder / name).write_bytes(b"")
        os.utime(folder / name, ns=(ns, ns))
    assert [one.name for one in script.spool.waiting()] == ["c", "d", "a", "b"]
    assert script.spool.oldest() == 0


def test_files_of_a_dead_script_are_queued_after_a_while(script: Script) -> None:
    left, fresh = (script.home / "spool" / TMP / name for name in ("left", "fresh"))
    for path in (left, fresh):
        path.write_bytes(b"forestay-spool 1 codex Stop 1 2 - -\n{}")
    os.utime(left, (1000, 1000))
    script.spool.rescue(int(time.time() * 1000))
    assert [one.name for one in script.spool.waiting()] == ["left"]
    assert fresh.exists()


def test_file_without_its_first_line_is_all_payload(script: Script) -> None:
    (script.home / "spool" / NEW / "x").write_bytes(PAYLOAD)
    (script.home / "spool" / NEW / "y").write_bytes(b"forestay-spool 1 too few\n" + PAYLOAD)
    first, second = script.kept()
    assert (first.sender.agent, first.data) == ("", PAYLOAD)
    assert second.data.endswith(PAYLOAD)


def test_set_aside_payload_is_stored_and_no_longer_waits(script: Script) -> None:
    script.quietly(b"no JSON")
    (one,) = script.spool.waiting()
    script.spool.set_aside(one.name)
    script.spool.set_aside(one.name)
    script.spool.drop(one.name)
    assert (script.spool.count(), script.spool.count(BAD)) == (0, 1)
    assert script.spool.read(one.name) is None


def test_home_without_a_spool_has_no_payloads_and_none_is_created(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    assert (spool.count(), spool.waiting(), spool.lost(), spool.oldest()) == (0, [], (0, 0), None)
    assert list(tmp_path.iterdir()) == []
