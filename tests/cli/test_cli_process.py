"""The command line as a real process: signals, pipes, streams, encodings and deleted folders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Cli, command, environment, process


def _status(cli: Cli) -> dict[str, Any]:
    return cli.json("status")


def test_the_installed_program_runs(cli: Cli) -> None:
    program = Path(sys.executable).parent / "forestay"
    if not program.exists():
        pytest.skip("forestay is not installed as a program next to this interpreter")
    done = subprocess.run([program, "start", "Add login"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Started session ")
    assert _status(cli)["goal"] == "Add login"


def test_successful_command_is_visible_to_the_next_process(cli: Cli) -> None:
    cli.start()
    for number in range(3):
        assert process("note", str(number)).returncode == 0
    assert _status(cli)["seq"] == 4
    assert process("verify").returncode == 0


# -- Ctrl-C ------------------------------------------------------------------------------------


def _start(*argv: str, **more: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*command(), *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    )


def test_ctrl_c_ends_follow_with_130_and_no_message(cli: Cli) -> None:
    cli.start("Add login")
    child = _start("log", "--follow")
    assert child.stdout is not None
    assert b"Add login" in child.stdout.readline()
    cli.ok("note", "while it follows")
    assert b"while it follows" in child.stdout.readline()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (130, b"", b"")


def test_follow_prints_json_lines_at_once(cli: Cli) -> None:
    cli.start("Add login")
    child = _start("log", "--follow", "--json", "-n", "1")
    assert child.stdout is not None
    assert json.loads(child.stdout.readline())["kind"] == "session.started"
    cli.ok("note", "x")
    assert json.loads(child.stdout.readline())["kind"] == "note.added"
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=30)
    assert child.returncode == 130


def test_ctrl_c_while_waiting_for_text_or_lock_records_nothing(cli: Cli, home: Path) -> None:
    import fcntl

    cli.start()
    reading = _start("note", "-", stdin=subprocess.PIPE)
    lock = os.open(home / "writer.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    waiting = _start("note", "x")
    time.sleep(1.0)
    for child in (reading, waiting):
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
        assert (child.returncode, out, err) == (130, b"", b"")
    os.close(lock)
    assert _status(cli)["seq"] == 1
    assert process("verify").returncode == 0


@pytest.mark.parametrize("delay", [0.02, 0.05, 0.08, 0.12])
def test_ctrl_c_at_any_moment_of_a_refused_command_leaves_the_session_sound(
    cli: Cli, delay: float
) -> None:
    cli.start()
    child = _start("task", "done", "t1")
    time.sleep(delay)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=30)
    assert _status(cli)["seq"] == 1
    assert process("verify").returncode == 0


# -- streams -----------------------------------------------------------------------------------


def test_closed_pipe_ends_a_command_with_141_and_no_message(cli: Cli) -> None:
    cli.start()
    for number in range(50):
        cli.ok("note", f"{number} " + "x" * 3000)
    child = _start("log")
    assert child.stdout is not None and child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr.read() == b""
    assert child.wait(30) == 141
    child.stderr.close()


def test_output_to_a_full_disk_is_reported_in_one_line(cli: Cli) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    cli.start()
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*command(), "status"], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1 and b"could not be written" in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_commands_work_with_closed_streams(cli: Cli, closed: str) -> None:
    cli.start()
    line = f'"$@" note x {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", line, "sh", *command()], capture_output=True, timeout=60
    )
    assert done.returncode == 0, done
    assert b"Traceback" not in done.stderr
    assert _status(cli)["seq"] == 2
    assert process("verify").returncode == 0
    failed = subprocess.run(
        ["/bin/sh", "-c", f'"$@" session use nowhere {closed}', "sh", *command()],
        capture_output=True,
    )
    assert failed.returncode == 3


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_works_in_a_locale_that_is_not_utf_8(cli: Cli, encoding: str) -> None:
    cli.start("Grüße – 漢字")
    done = process("status", env=environment(PYTHONIOENCODING=encoding))
    assert done.returncode == 0
    assert b"Gr" in done.stdout and b"\\u6f22" in done.stdout
    shown = process("status", "--json", env=environment(PYTHONIOENCODING=encoding))
    assert json.loads(shown.stdout.decode("utf-8"))["goal"] == "Grüße – 漢字"
    wrong = process("session", "use", "nöwhere", env=environment(PYTHONIOENCODING=encoding))
    assert wrong.returncode == 3 and b"Traceback" not in wrong.stderr


def test_c_locale_accepts_utf_8(cli: Cli) -> None:
    cli.start()
    assert process("note", "漢字", env=environment(LC_ALL="C")).returncode == 0
    assert cli.ok("log", "--json", "-n", "1").lines[0]["data"]["text"] == "漢字"


# -- arguments and places ----------------------------------------------------------------------


def test_arguments_that_are_not_utf_8_exit_2(cli: Cli, home: Path) -> None:
    for argv in ([b"start", b"t\xe9"], [b"--home", b"/tmp/\xff", b"list"], [b"\xff"]):
        done = process(*argv)
        assert done.returncode == 2, done
        assert b"is not valid UTF-8" in done.stderr
    assert not home.exists()
    answer = process(b"--json", b"start", b"t\xe9")
    assert json.loads(answer.stdout)["error"]["code"] == 2


@pytest.mark.parametrize("name", ["FORESTAY_SESSION", "FORESTAY_STORE", "PAGER"])
def test_environment_variables_that_are_not_utf_8_exit_2(cli: Cli, name: str) -> None:
    done = process("start", "x", env={**os.environb, name.encode(): b"/tmp/t\xe9\xff"})
    assert done.returncode == 2, done
    assert b"Traceback" not in done.stderr and b"bug" not in done.stderr


def test_home_may_have_a_name_that_is_not_utf_8(cli: Cli, tmp_path: Path) -> None:
    home = os.fsencode(tmp_path) + b"/t\xe9"
    for argv in (["start", "x"], ["note", "y"], ["config"], ["status", "--json"], ["verify"]):
        done = process(*argv, env={**os.environb, b"FORESTAY_HOME": home})
        assert done.returncode == 0, done


def test_standard_input_that_is_not_utf_8_exits_2(cli: Cli) -> None:
    cli.start()
    done = process("note", "-", stdin=None, input=b"t\xe9")
    assert done.returncode == 2
    assert b"standard input is not UTF-8" in done.stderr
    assert _status(cli)["seq"] == 1


def test_deleted_folder_is_reported_and_a_named_session_still_works(
    cli: Cli, tmp_path: Path
) -> None:
    session = cli.start()
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'cd "$0" && rmdir "$0" && exec "$@"'

    def there(*argv: str) -> subprocess.CompletedProcess[bytes]:
        gone.mkdir(exist_ok=True)
        return subprocess.run(
            ["/bin/sh", "-c", script, str(gone), *command(), *argv], capture_output=True
        )

    for argv in (["status"], ["list"], ["note", "x"], ["start", "x"], []):
        done = there(*argv)
        assert done.returncode == 2, done
        assert b"the current folder does not exist" in done.stderr
    for argv in (["--version"], ["--help"], ["config"], ["status", "--session", session]):
        assert there(*argv).returncode == 0, argv
    done = there("note", "x", "--session", session)
    assert done.returncode == 0, done
    assert there("list", "--all").returncode == 0
