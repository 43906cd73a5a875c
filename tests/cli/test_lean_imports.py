"""Unused modules are not loaded at the start, and can still be imported later."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID

LIGHT = "from forestay.cli.lean_imports import _load, load_msgspec, load_argparse; import sys\n"
LEFT_OUT = "uuid decimal platform textwrap msgspec.inspect msgspec.toml msgspec.yaml gettext"


def run(script: str, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT + script],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **more},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_status_with_bound_files_loads_no_unused_module(tmp_path: Path) -> None:
    def forestay(*words: str) -> set[str]:
        script = f"from forestay.cli.main import entry; sys.argv = {['forestay', *words]}; entry()"
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", LIGHT + script],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            env={**os.environ, "FORESTAY_HOME": str(tmp_path / "home")},
        )
        assert done.returncode == 0, done.stderr
        return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}

    forestay("start", "a goal", "--bind", "craft")
    loaded = forestay("status")
    assert {"msgspec", "forestay.mirror.mirror"} <= loaded
    assert not loaded & {*LEFT_OUT.split(), "yaml"}


def test_msgspec_and_argparse_load_no_unused_module() -> None:
    loaded = run("load_msgspec(); load_argparse(); import msgspec; print(*sys.modules)").split()
    assert {"argparse", "msgspec"} <= set(loaded)
    assert not set(loaded) & set(LEFT_OUT.split())


def test_modules_replaced_by_stubs_can_still_be_imported() -> None:
    script = """
load_msgspec(); load_argparse()
import decimal, gettext, msgspec, textwrap, uuid
print(decimal.Decimal("0.1") * 3, gettext.gettext("x"), textwrap.dedent("  y"), uuid.UUID(int=1))
print(msgspec.json.schema(int), msgspec.inspect.type_info(int), msgspec.yaml.encode.__name__)
"""
    first, second = run(script).splitlines()
    assert first == f"0.3 x y {UUID(int=1)}"
    assert second.startswith("{'type': 'integer'} IntType(") and second.endswith(" encode")


def test_msgspec_works_the_same_after_loading_the_omitted_modules() -> None:
    script = """
load_msgspec()
import datetime, enum, msgspec
class E(enum.Enum): A = "a"
class S(msgspec.Struct): a: int; b: list[str]; c: datetime.date; d: E; e: str | int | None = None
s = S(1, ["x"], datetime.date(2026, 1, 2), E.A)
assert msgspec.json.decode(msgspec.json.encode(s), type=S) == s
print(msgspec.json.encode(s).decode())
"""
    assert run(script) == '{"a":1,"b":["x"],"c":"2026-01-02","d":"a","e":null}'


def test_interrupt_during_the_import_of_msgspec_arrives_afterwards() -> None:
    script = """
import signal
class Interrupting:
    def find_spec(self, name, *rest):
        if name == "msgspec._core":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
try:
    load_msgspec()
except KeyboardInterrupt:
    print("interrupted", hasattr(sys.modules.get("msgspec"), "Struct"))
"""
    assert run(script) == "interrupted True"


def test_module_that_needs_more_than_the_stubs_is_loaded_completely(tmp_path: Path) -> None:
    (tmp_path / "needy.py").write_text("from decimal import Decimal\nHALF = Decimal(1) / 2\n")
    script = f"sys.path.insert(0, {str(tmp_path)!r})\n"
    script += '_load("needy", {"decimal": {"Decimal": object}}); import needy; print(needy.HALF)'
    assert run(script) == "0.5"


def test_unexpected_attribute_of_a_stub_loads_the_real_module(tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text("from decimal import ROUND_UP, Decimal\n")
    script = f"sys.path.insert(0, {str(tmp_path)!r})\n"
    script += '_load("asks", {"decimal": {"Decimal": 1}}); import asks; print(asks.ROUND_UP)'
    assert run(script) == "ROUND_UP"


def test_messages_of_argparse_are_english_whatever_was_loaded_before() -> None:
    script = (
        "import argparse; load_argparse(); print(argparse._('a'), argparse.ngettext('b', 'c', 2))"
    )
    assert run(script) == "a c"
