"""Who is alive: real processes, dead ones, zombies, and numbers that were used again."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forestay.base import files, process
from forestay.base.process import ProcessId, ancestors, device_name, identity, liveness, machine_id

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as running:
        yield running
        running.kill()


def of(running: subprocess.Popen[bytes]) -> ProcessId:
    found = identity(running.pid)
    assert found is not None
    return found


def changed(source: ProcessId, **fields: str | int) -> ProcessId:
    names = ("boot", "ns", "pid", "start", "machine")
    values = {name: fields.get(name, getattr(source, name)) for name in names}
    text = "/".join(str(values[name]) for name in ("machine", "boot", "ns", "pid", "start"))
    return ProcessId.parse(text)


def become_zombie(running: subprocess.Popen[bytes]) -> None:
    running.kill()
    os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)


def test_this_process_is_alive_and_the_same_each_time() -> None:
    me = identity()
    assert me is not None and me == identity(os.getpid())
    assert liveness(me) == "alive"
    assert (me.pid, me.machine) == (os.getpid(), machine_id())


def test_process_id_survives_being_stored(child: subprocess.Popen[bytes]) -> None:
    one = of(child)
    again = ProcessId.parse(str(one))
    assert again == one and hash(again) == hash(one) and again.machine == one.machine
    assert liveness(again) == "alive"
    assert one != changed(one, start=one.start + 1) and one != "something else"
    assert str(one) in repr(one)


def test_stopped_process_is_alive(child: subprocess.Popen[bytes]) -> None:
    one = of(child)
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert liveness(one) == "alive"


def test_killed_process_is_dead_before_and_after_it_is_reaped(
    child: subprocess.Popen[bytes],
) -> None:
    one = of(child)
    become_zombie(child)
    assert liveness(one) == "dead"
    assert identity(child.pid) is None
    child.wait()
    assert liveness(one) == "dead"
    assert identity(child.pid) is None


def test_process_whose_number_is_used_by_another_process_is_dead(
    child: subprocess.Popen[bytes],
) -> None:
    assert liveness(changed(of(child), start=of(child).start - 1)) == "dead"


def test_process_of_an_earlier_boot_is_dead(child: subprocess.Popen[bytes]) -> None:
    assert liveness(changed(of(child), boot="another")) == "dead"


def test_process_of_another_machine_is_unknown(child: subprocess.Popen[bytes]) -> None:
    assert liveness(changed(of(child), boot="another", machine="another")) == "unknown"


def test_process_in_another_namespace_is_unknown(child: subprocess.Popen[bytes]) -> None:
    assert liveness(changed(of(child), ns="1")) == "unknown"


@pytest.mark.parametrize("field", ["boot", "ns"])
def test_process_id_with_a_missing_field_is_unknown(
    child: subprocess.Popen[bytes], field: str
) -> None:
    assert liveness(changed(of(child), **{field: ""})) == "unknown"


@pytest.mark.parametrize("pid", [0, -1, -77])
def test_invalid_process_number_is_unknown(pid: int) -> None:
    me = identity()
    assert me is not None
    assert liveness(changed(me, pid=pid)) == "unknown"
    assert identity(pid) is None


def test_process_number_beyond_the_maximum_is_dead() -> None:
    me = identity()
    assert me is not None
    assert liveness(changed(me, pid=2**40)) == "dead"


@linux
def test_processes_in_two_real_namespaces_are_unknown_to_each_other() -> None:
    inner = (
        "from forestay.base.process import *; import sys\n"
        "print(identity(), liveness(ProcessId.parse(sys.argv[1])))"
    )
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", inner]
    done = subprocess.run([*unshare, str(identity())], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("may not make a pid namespace here")
    theirs, verdict = done.stdout.split()
    assert verdict == "unknown"
    assert liveness(ProcessId.parse(theirs)) == "unknown"


@linux
def test_proc_of_another_namespace_is_ignored() -> None:
    inner = (
        "from forestay.base.process import *; me = identity(); print(me is None or liveness(me))"
    )
    done = subprocess.run(
        ["unshare", "--pid", "--fork", sys.executable, "-c", inner], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip("may not make a pid namespace here")
    assert done.stdout.strip() in ("unknown", "True")


@linux
def test_process_name_with_parentheses_and_spaces_is_parsed(tmp_path: Path) -> None:
    strange = tmp_path / "a) Z (b 1 2"
    strange.symlink_to("/bin/sleep")
    with subprocess.Popen([str(strange), "60"]) as running:
        one = identity(running.pid)
        running.kill()
    assert one is not None and one.start > 0
    with subprocess.Popen(["sleep", "60"]) as other:
        later = of(other)
        other.kill()
    assert one.start <= later.start < one.start + 1_000


@linux
def test_process_whose_stat_file_cannot_be_read_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    me = identity()
    assert me is not None
    real = files.read_text
    monkeypatch.setattr(
        files, "read_text", lambda path: None if path.endswith("/stat") else real(path)
    )
    assert liveness(me) == "unknown"


def test_process_of_another_user_that_is_hidden_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    me = identity()
    assert me is not None
    monkeypatch.setattr(process, "_process", lambda pid: None)
    monkeypatch.setattr(os, "kill", refuse)
    assert liveness(me) == "unknown"


# --- ancestors ---------------------------------------------------------------------------------


def test_ancestors_start_with_this_process() -> None:
    found = ancestors()
    assert found[0] == identity()
    assert found[1].pid == os.getppid() and found[1] == identity(os.getppid())
    assert len(found) == len(set(found))
    assert all(parent.start <= child.start for child, parent in itertools.pairwise(found))


def test_grandchild_knows_its_grandparent() -> None:
    program = "from forestay.base.process import ancestors; print(*ancestors(3))"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}])"
    done = subprocess.run([sys.executable, "-c", nested], capture_output=True, text=True)
    assert [ProcessId.parse(text) for text in done.stdout.split()][-1] == identity()


def test_ancestors_stop_at_the_limit() -> None:
    assert len(ancestors(1)) == 1
    assert ancestors(0) == []


def test_process_younger_than_its_child_is_not_listed_as_an_ancestor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = {os.getpid(): (os.getpid(), "S", 77, 100), 77: (77, "S", 1, 101)}
    monkeypatch.setattr(process, "_process", rows.get)
    assert [one.pid for one in ancestors()] == [os.getpid()]


def test_ancestors_stop_at_an_invisible_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_process", lambda pid: None)
    assert ancestors() == []


# --- machine -----------------------------------------------------------------------------------


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_known", {})


@pytest.mark.usefixtures("forgetful")
def test_machine_id_is_stable_and_hides_the_real_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "read_text", lambda path: "ab" * 16)
    first = machine_id()
    assert first == machine_id() == "4e88551e486f7dd80e01ffa312c71957"
    assert "abab" not in first


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("text", [None, "", "uninitialized", "AB" * 16])
def test_machine_without_an_id_is_identified_by_its_host_name(
    monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    monkeypatch.setattr(files, "read_text", lambda path: text)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("L", "one", "", "", "")))
    one = machine_id()
    process._known.clear()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("L", "two", "", "", "")))
    assert len(one) == 32 and one != machine_id()


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("box", "box"),
        ("My-Mac.local", "My-Mac"),
        ("box.lan", "box"),
        ("a b\x1b[31m", "a-b--31m"),
        ("bücher", "b-cher"),
        ("-.-", "device"),
        ("", "device"),
        ("x" * 200, "x" * 63),
    ],
)
def test_device_name_is_the_cleaned_host_name(
    host: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("L", host, "", "", "")))
    assert device_name() == name


# --- macOS, by its answers ---------------------------------------------------------------------

ANSWERS = {
    "ps": "Ss    1 Sun Nov 15 21:00:00 2026\n",
    "sysctl": "8A0C-FF\n",
    "ioreg": '    "IOPlatformUUID" = "ABC-DEF"\n',
}


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch, forgetful: None) -> dict[str, str]:
    answers = dict(ANSWERS)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(process, "_machine_file", lambda: "")
    monkeypatch.setattr(process, "_mac_output", lambda name, *rest: answers[name])
    return answers


def test_process_facts_on_macos_come_from_its_tools(mac: dict[str, str]) -> None:
    one = identity(42)
    assert one is not None
    assert (one.boot, one.ns, one.pid, one.start) == ("8a0c-ff", "-", 42, 1_794_776_400)
    assert liveness(one) == "alive"
    mac["ps"] = mac["ps"].replace("21:00:00", "21:00:01")
    assert liveness(one) == "dead"
    mac["ps"] = mac["ps"].replace("Ss", "Z+").replace("21:00:01", "21:00:00")
    assert liveness(one) == "dead"
    assert identity(42) is None


def test_machine_id_on_macos_comes_from_the_platform_uuid(mac: dict[str, str]) -> None:
    one = machine_id()
    process._known.clear()
    mac["ioreg"] = ""
    assert machine_id() != one


def test_macos_without_its_tools_reports_unknown(mac: dict[str, str]) -> None:
    me = ProcessId("8a0c-ff", "-", os.getpid(), 1)
    mac["ps"] = ""
    assert identity(42) is None
    assert liveness(me) == "unknown"  # not shown, but there
    mac["sysctl"] = ""
    process._known.clear()
    assert liveness(me) == "unknown"


def test_missing_or_failing_tool_gives_empty_output() -> None:
    assert process._mac_output("no-such-tool-here") == ""
    assert process._mac_output("false") == ""
    assert process._mac_output("echo", "x") == "x\n"


def test_liveness_check_is_fast() -> None:
    me = identity()
    assert me is not None
    start = time.perf_counter()
    for _ in range(100):
        liveness(me)
    assert time.perf_counter() - start < 60
