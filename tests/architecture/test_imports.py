"""Which way imports point: down and inward only.

The tables are the rule; the code below them only reads imports out of the source. An import
counts wherever it is written, inside a function or for types only: knowing is depending. In
the other tables `model.*` means the package and all within it, `store.port` one module alone.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from forestay.formats.port import REGISTRY

SOURCE = Path(__file__).parent.parent.parent / "src" / "forestay"

# Rooms from the inside out: each may import those in the rows above its own. Rooms in one row do
# not import each other.
ORDER = """
    errors
    base
    model
    briefing
    formats
    store
    workspace
    journal
    mirror
    plans sync agents
    health
    api
    mcp
    cli
    compat testing forestay
    __main__
"""

# Third-party package → who may import it.
THIRD_PARTY = {
    "msgspec": "model.* formats.* journal.* mirror.* plans.* sync.* agents.* health.* api.* mcp.*"
    " briefing.* workspace.* testing.* compat",
    "yaml": "formats.text.safe_parse",
    "_sha2": "base.hashing",  # of the standard library, but not in every version
    "shtab": "cli.*",
    "mcp": "mcp.server mcp.http cli.mcp",
    "mcp_types": "mcp.server",
    "anyio": "mcp.server mcp.http cli.mcp",
    "starlette": "mcp.http",
    "uvicorn": "mcp.http",
    "pyrage": "sync.crypto.keys",
    "cryptography": "sync.crypto.keys",
    "keyring": "sync.crypto.keys",
    "isal": "sync.pack_codec",
    "obstore": "sync.remotes.s3",
    "psycopg": "store.postgres.*",
    "pytest": "testing.*",
}

# Pure modules see no file, clock, network, environment or chance.
PURE = "errors base.vocabulary base.redact base.hashing base.text model.* briefing.*"
PURE += " agents.hook_event agents.tool_calls agents.payloads agents.payloads_opencode"
PURE_STDLIB = """
    __future__ _sha2 _sha256 ast base64 binascii bisect collections dataclasses datetime difflib
    enum fnmatch
    functools hashlib heapq hmac html itertools json math operator re string struct textwrap
    types typing unicodedata
""".split()
IMPURE_CALLS = "open now utcnow today input print exec eval".split()

# Modules that every `forestay status` loads, and what is too heavy to be loaded with them.
HOT = """
    forestay errors base.version base.vocabulary base.clock base.config base.files base.process
    base.hashing base.value
    base.text base model.timing model api api.followers api.forestay
    api.session api.status api.values
    journal journal.context journal.presence journal.recorder mirror mirror.session_files
    workspace workspace.tree workspace.current_session
    store store.open store.port store.machine.* store.sqlite.*
    store.blob_uses store.search store.sql
    cli cli.main cli.arguments cli.dispatch cli.lean_imports
    cli.terminal cli.status cli.table
"""
HEAVY = """
    asyncio contextlib dataclasses hypothesis importlib inspect logging msgspec multiprocessing
    pathlib pytest shtab shutil subprocess tempfile typing unittest urllib
""".split()


# Modules outside the folders of the formats that may name one of them: the registry, styles of
# briefings, and commands and rules that exist for one format.
NAMES_A_FORMAT = """
    formats.registry compat
    briefing.brief briefing.style_orchestrator base.vocabulary base.words
    plans.essay_sessions plans.essay_steps plans.praxis_definition plans.revisit plans.inactivity
    mirror.ai_session_cleanup mirror.contract_file mirror.orchestrator_session
    api.files api.session_files
    cli.common cli.format_commands
"""


# One that Python had until 3.11 is asked for where there is no newer one.
STANDARD = sys.stdlib_module_names | {"_sha256"}


def test_every_room_has_its_place() -> None:
    assert {room_of(name) for name in modules()} == set(ORDER.split())


@pytest.mark.parametrize("room", ORDER.split())
def test_imports_go_one_way_between_rooms(room: str) -> None:
    inner = rooms_below(room)
    bad = [
        f"{name} imports {seen}"
        for name in modules()
        if room_of(name) == room
        for seen in ours(name)
        if room_of(seen) not in {room, *inner}
    ]
    assert not bad


def test_packages_of_others_stay_where_they_are_needed() -> None:
    for name in modules():
        for top in {seen.partition(".")[0] for seen in others(name)} - STANDARD:
            assert matches(name, THIRD_PARTY.get(top, "")), f"{name} must not import {top}"


def test_pure_modules_import_nothing_that_has_effects() -> None:
    for name in modules():
        if matches(name, PURE):
            tops = {seen.partition(".")[0] for seen in others(name)} - THIRD_PARTY.keys()
            bad = sorted(tops - set(PURE_STDLIB))
            assert not bad, f"{name} is pure: no {bad} there"


def test_pure_modules_call_nothing_that_has_effects() -> None:
    for name in modules():
        if matches(name, PURE):
            bad = [call for call in calls(name) if call in IMPURE_CALLS]
            assert not bad, f"{name} is pure: no call of {bad} there"


def test_only_the_settings_read_the_environment() -> None:
    for name in modules():
        if not matches(name, "base.config testing.*"):
            read = {getattr(node, "attr", "") for node in ast.walk(tree(name))}
            assert not read & {"environ", "environb", "getenv"}, f"{name}: ask config instead"


def test_start_up_path_loads_nothing_heavy() -> None:
    for name in modules():
        if matches(name, HOT):
            bad = [s for s in loaded(name) if not s.startswith("forestay") and _top(s) in HEAVY]
            assert not bad, f"{name} is loaded at every start: import {bad} where it is needed"


def test_start_up_path_loads_only_itself() -> None:
    for name in modules():
        if matches(name, HOT):
            bad = [seen for seen in within(loaded(name)) if not matches(seen, HOT)]
            assert not bad, f"{name} is loaded at every start: import {bad} where it is needed"


def test_generic_code_names_no_format() -> None:
    packages = (
        module.removeprefix("forestay.").rpartition(".")[0] for module, _ in REGISTRY.values()
    )
    folders = " ".join(f"{package}.*" for package in packages)
    for name in modules():
        if matches(name, NAMES_A_FORMAT) or matches(name, folders):
            continue
        words = {n.value for n in ast.walk(tree(name)) if isinstance(n, ast.Constant)}
        assert not words & REGISTRY.keys(), f"{name}: what is special to a format is in its folder"
        bad = [seen for seen in ours(name) if matches(seen, folders)]
        assert not bad, f"{name} imports {bad}"


def test_formats_load_nothing_that_few_of_their_files_need() -> None:
    for name in modules():
        rare = "formats.praxis.api_types"  # for `compat`
        there = "formats.* mirror.*"
        if matches(name, there) and not matches(name, rare):
            bad = [s for s in loaded(name) if _top(s) in ("yaml", "dataclasses")]
            assert not bad, f"{name} is loaded for every file: import {bad} where it is needed"


# --- reading the source --------------------------------------------------------------------------


@cache
def modules() -> dict[str, Path]:
    """Every module by its short name: `store.sqlite`, and `forestay` for the package itself."""
    return {_short(path): path for path in sorted(SOURCE.rglob("*.py"))}


def _short(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "forestay"


def rooms_below(room: str) -> list[str]:
    rows = [row.split() for row in ORDER.strip().splitlines()]
    place = next(n for n, row in enumerate(rows) if room in row)
    return [one for row in rows[:place] for one in row]


def room_of(name: str) -> str:
    """The first part of a module's short name: `store` for `store.sqlite.schema`."""
    return name.partition(".")[0]


def matches(name: str, patterns: str) -> bool:
    return any(
        name == pattern.removesuffix(".*")
        or (pattern.endswith(".*") and name.startswith(pattern.removesuffix("*")))
        for pattern in patterns.split()
    )


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


def ours(name: str) -> list[str]:
    """The modules of Forestay that this one imports anywhere, by short name."""
    return within(imported(name, ast.walk(tree(name))))


def others(name: str) -> list[str]:
    return [s for s in imported(name, ast.walk(tree(name))) if _top(s) != "forestay"]


def loaded(name: str) -> list[str]:
    """What importing this module imports at once: not what functions or type checkers do."""
    return imported(name, _at_once(tree(name).body))


def within(names: list[str]) -> list[str]:
    return [s.removeprefix("forestay.") for s in names if _top(s) == "forestay"]


def calls(name: str) -> list[str]:
    found = (node.func for node in ast.walk(tree(name)) if isinstance(node, ast.Call))
    return [f.id if isinstance(f, ast.Name) else getattr(f, "attr", "") for f in found]


def imported(name: str, nodes: Iterator[ast.AST]) -> list[str]:
    found: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _base(name, node)
            found += [_module_or_member(base, alias.name) for alias in node.names]
    return found


def _base(name: str, node: ast.ImportFrom) -> str:
    """The absolute name that `from … import` speaks of."""
    if not node.level:
        return node.module or ""
    here = ["forestay", *([] if name == "forestay" else name.split("."))]
    is_package = modules()[name].name == "__init__.py"
    up = here[: len(here) - node.level + is_package]
    return ".".join([*up, *([node.module] if node.module else [])])


def _module_or_member(base: str, member: str) -> str:
    return f"{base}.{member}" if f"{base}.{member}".removeprefix("forestay.") in modules() else base


def _at_once(body: list[ast.stmt]) -> Iterator[ast.AST]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from _at_once(node.orelse)
            continue
        yield node
        for inner in ("body", "orelse", "finalbody"):
            yield from _at_once(getattr(node, inner, []))
        for handler in getattr(node, "handlers", []):
            yield from _at_once(handler.body)


def _top(name: str) -> str:
    return name.partition(".")[0]
