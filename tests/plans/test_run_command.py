"""Running commands: how they end, and how much of their output is stored."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from forestay.base.clock import Clock
from forestay.errors import InvalidInput
from forestay.plans import run_command
from forestay.plans.run_command import Ended

QUICK = 0.3


def run(*argv: str, folder: str = "/", **how: Any) -> Ended:
    return run_command.run(argv, folder, dict(os.environ), clock=Clock(), **how)


def python(code: str, **how: Any) -> Ended:
    return run(sys.executable, "-c", code, **how)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    ends = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < ends:
        time.sleep(0.01)
    return not is_alive(pid)


def test_output_of_both_streams_is_read_in_order() -> None:
    shown: list[bytes] = []
    ended = run("sh", "-c", "echo out; echo err >&2; exit 3", sink=shown.append)
    assert (ended.exit, ended.head, b"".join(shown)) == (3, b"out\nerr\n", b"out\nerr\n")
    assert not ended.timed_out and not ended.interrupted


def test_output_is_passed_on_before_the_command_ends(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    code = f"import os,time\nprint('first', flush=True)\nwhile not os.path.exists({str(seen)!r}):"
    ended = python(code + " time.sleep(0.01)", sink=lambda data: seen.touch(), timeout=20)
    assert ended.exit == 0 and not ended.timed_out


def test_command_has_no_input_and_no_terminal() -> None:
    code = "import sys\nprint(repr(sys.stdin.read()))\n"
    code += "try: open('/dev/tty')\nexcept OSError: print('no')"
    assert python(code).head == b"''\nno\n"


def test_exit_code_of_a_killed_command_is_that_of_a_shell() -> None:
    assert run("sh", "-c", "kill -9 $$").exit == 128 + signal.SIGKILL


@pytest.mark.parametrize("name", ["no-such-command", "/etc/passwd", "./nothing", "a\0b"])
def test_command_that_cannot_be_started_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"no command|cannot be run"):
        run(name)


def test_missing_folder_is_named() -> None:
    with pytest.raises(InvalidInput, match="no folder /nowhere"):
        run("true", folder="/nowhere")


def test_timeout_ends_a_command_with_its_children(tmp_path: Path) -> None:
    ended = run("sh", "-c", "sleep 600 & echo $!; sleep 600", timeout=QUICK)
    assert ended.timed_out and ended.exit == 128 + signal.SIGTERM
    assert gone(int(ended.head))


def test_command_that_ignores_the_signal_is_killed_after_the_grace_period() -> None:
    code = "import signal,time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(600)"
    ended = python(code, timeout=1, grace=QUICK)
    assert ended.timed_out and ended.exit == 128 + signal.SIGKILL


def test_children_that_ignore_the_signal_are_killed() -> None:
    stubborn = "trap '' TERM; echo $$; while :; do sleep 1; done"
    ended = run("sh", "-c", f'sh -c "{stubborn}" & wait', timeout=1, grace=QUICK)
    assert ended.timed_out and gone(int(ended.head.split()[0]))


def test_a_background_process_does_not_delay_the_result() -> None:
    began = time.monotonic()
    ended = run("sh", "-c", "sleep 600 & echo $!")
    assert ended.exit == 0 and time.monotonic() - began < 60
    os.kill(int(ended.head), signal.SIGKILL)


def test_background_process_that_prints_for_ever_does_not_delay_the_result() -> None:
    began = time.monotonic()
    ended = run("sh", "-c", "yes & echo $!; exec sleep 0.1")
    assert ended.exit == 0 and time.monotonic() - began < 60
    pid = int(next(line for line in ended.head.split() if line.isdigit()))
    assert gone(pid), "it wrote to a closed pipe and must be gone"


def test_command_that_closes_its_output_is_waited_for() -> None:
    ended = python("import os,time\nos.close(1);os.close(2)\ntime.sleep(0.2)\nos._exit(5)")
    assert ended.exit == 5 and ended.duration_ms >= 200


def test_only_the_beginning_and_the_end_of_a_long_output_are_stored() -> None:
    code = "import sys\nfor n in range(200): sys.stdout.write('%07d\\n' % n * 16384)"
    ended = python(code)
    assert ended.printed == 200 * 8 * 16384
    assert len(ended.head) == run_command.HEAD and len(ended.tail) <= 3 * run_command.TAIL
    assert ended.head.startswith(b"0000000\n") and ended.tail.endswith(b"0000199\n")


def test_a_stopped_command_is_ended_and_recorded() -> None:
    ends = time.monotonic() + QUICK
    ended = run("sleep", "60", stop=lambda: time.monotonic() > ends)
    assert ended.interrupted and ended.exit == 128 + signal.SIGTERM
    assert ended.duration_ms < 20_000


def test_an_interrupt_is_passed_on_and_recorded(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    code = "import signal,sys,time\nsignal.signal(2, lambda *_: sys.exit(9))\n"
    code += f"open({str(ready)!r},'w').close()\ntime.sleep(600)"

    def interrupt() -> None:
        while not ready.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    ended = python(code)
    assert ended.interrupted and ended.exit == 9
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
