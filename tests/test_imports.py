"""Which way imports point: down and inward only.

The tables are the rule; the code below them only reads imports out of the source. An import
counts wherever it stands, inside a function or for types only: knowing is depending. In a
table `model.*` means the package and all within it, `store` that one module alone, so whoever
may import `store` may still not know an adapter.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "holdfast"

# Module → what it may import of Holdfast. A new module needs a row.
ALLOWED = {
    # pure: values in, values out
    "errors": "",
    "choice": "",
    "hidden": "",
    "sha": "",
    "timing": "",
    "redact": "errors",
    "kinds": "errors",
    "text": "errors sha",
    "model.*": "errors choice sha text timing model.*",
    "layout.telling": "choice model.* layout.*",
    "layout.translate": "choice sha text model.* layout.*",
    "layout.essay.form": "choice layout.*",
    "layout.essay.write": "choice layout.*",
    "layout.*": "errors sha timing layout.*",
    # engine
    "clock": "errors sha",
    "meanwhile": "",
    "descent": "",
    "files": "errors clock",
    "obstacle": "files",
    "mark": "errors clock files process",
    "exchange": "errors clock files meanwhile sha",
    "amend": "errors clock exchange files layout.*",
    "mount": "",
    "config": "errors files redact",
    "place": "errors clock files",
    "process": "sha files",
    "git": "place",
    "project": "files git place",
    "pack": "errors text model.*",
    "intake": "redact text model.*",
    "derived": "model.* store",
    "soundness": "errors derived model.* store",
    "union": "errors clock derived sha soundness model.* store",
    "journal": "errors clock derived intake redact sha soundness text union model.* store"
    " store.runs",
    "backup": "holdfast errors clock derived files text pack journal model.* store",
    "restore": "errors derived files pack journal model.* store union",
    "erasure": "errors backup choice files home hooks.spool journal mirror.erase"
    " model.* pack process redact store timeline",
    "move": "errors backup derived model.* sha soundness store store.carry",
    "probe": "errors config files",
    "rebuild": "errors backup clock config derived files journal probe process redact restore"
    " store.*",
    "doctor": "errors backup clock config derived files hooks.spool journal model.* mount"
    " obstacle pack probe process"
    " rebuild restore soundness store.*",
    "workspace": "errors clock config choice place process project store store.local text",
    "timeline": "errors clock journal model.* store",
    "touch": "errors config files git place model.*",
    "view": "choice clock derived errors home session timing model.event store.local",
    "fault": "errors redact",
    "plain": "clock phase prove workflow",
    "child": "errors clock",
    "inputs": "errors git place",
    "expiry": "errors layout.* model.* verb workspace",
    "chore": "errors essay files home layout.* sha store.bound",
    "revisit": "errors chore clock essay files home layout.* model.* place sha store.bound verb",
    "prove": "errors child clock config files home inputs model.* place sha text verb",
    "mirror.*": "errors amend choice clock exchange descent files journal mark model.* layout.*"
    " mirror.* obstacle place store store.bound text",
    "glance": "",
    "hooks.heard": "sha text model.event",
    "hooks.scan": "errors clock files git model.event model.state place",
    "transcript.*": "errors descent files hooks.heard hooks.tool hooks.wire model.event"
    " transcript.*",
    "hooks.tool": "sha hooks.heard model.event",
    "hooks.wire": "hooks.heard hooks.tool hooks.wire_opencode model.event",
    "hooks.wire_opencode": "sha hooks.heard hooks.tool model.event",
    "conversation": "errors choice clock config home hooks.heard hooks.scan hooks.tool"
    " journal model.* place process"
    " session store store.local store.runs survey text workspace transcript",
    "ingest": "errors conversation home hooks.heard hooks.spool hooks.wire process sha store.runs",
    "greeting": "errors home hooks.heard hooks.spool ingest model.topics session"
    " store.runs text workspace",
    "hooks": "hooks.spool",
    "hooks.spool": "errors files sha",
    "found": "errors descent files layout.*",
    "inspection": "errors files found layout.*",
    "surroundings": "errors descent files found layout.*",
    "convert": "errors files found layout.* surroundings",
    "contract": "amend clock exchange files text layout.*",
    "live": "errors clock files layout.* process",
    "cleanup": "errors amend choice exchange descent files found home layout.* mark obstacle",
    "definition": "errors layout.* model.* text",
    "praxis_workflow": "errors files layout.* model.plan text",
    "workflow": "errors definition files layout.* model.plan praxis_workflow text",
    "adopt": "errors convert descent files found glance home inspection layout.* model.* place sha"
    " store.bound surroundings text",
    "retell": "errors clock config home hooks.heard journal model.* place text transcript",
    "leftover": "errors clock exchange files found glance home mirror.desk",
    "recover": "errors clock exchange files found home layout.* leftover mirror.desk place"
    " store.bound",
    "remedy": "errors doctor files found glance home inspection layout leftover layout.customs"
    " layout.essay place recover store.bound surroundings",
    "essay": "errors adopt files found home inspection layout.* model.* place recover session"
    " store.bound text verb",
    "orchestrator": "errors adopt beginning choice files found home layout.* recover session text",
    "evidence": "errors files journal layout.document layout.guarded model.* sha",
    "phase": "errors clock evidence prove touch verb model.*",
    "pipeline": "errors choice chore clock essay files layout.essay.* model.* text touch verb",
    "hooks.settings": "",
    "hooks.agents": "",
    "hooks.install": "config errors files hooks hooks.agents hooks.settings",
    "hooks.survey": "doctor errors files hooks hooks.agents hooks.install hooks.settings",
    # how sessions travel, from the inside out
    "travel": "",
    "travel.quick_pack": "errors model.* pack",
    "travel.parcels": "holdfast errors derived model.* pack store travel.quick_pack",
    "travel.session_keys": "errors model.travel remote.* sha",
    "travel.trip": "clock errors journal sha remote remote.names store.remotes travel.session_keys",
    "travel.exchange": "errors model.* remote remote.* store store.remotes text"
    " travel.parcels travel.session_keys travel.trip",
    "travel.opening": "errors model.* pack remote.* store.remotes travel.exchange"
    " travel.quick_pack",
    "travel.looking": "derived errors model.* remote.* store store.remotes text"
    " travel.exchange travel.opening",
    "travel.taking": "derived model.* pack restore store store.remotes travel.exchange"
    " travel.looking travel.opening travel.quick_pack",
    "travel.joining": "derived errors model.event remote remote.names store.remotes"
    " travel.quick_pack travel.session_keys travel.trip",
    "travel.replacing": "model.* remote.names store store.remotes travel.exchange"
    " travel.opening travel.parcels",
    "travel.pushing": "derived errors model.* remote.code remote.names store store.remotes"
    " travel.exchange travel.parcels travel.replacing travel.taking",
    "travel.turning": "remote.ring store.remotes travel.exchange travel.taking",
    "travel.reach": "errors meanwhile remote remote.careful remote.names store.remotes",
    "travel.alone": "errors files home",
    "keychain": "errors files home process remote remote.* store.remotes travel.alone travel.reach",
    "travel.circling": "errors home keychain remote remote.* store.remotes travel.reach"
    " travel.session_keys",
    "travel.remotes": "errors home remote remote.names store.remotes travel.reach",
    "travel.visit": "erasure errors home remote remote.names store.remotes text travel.*",
    "travel.background": "errors config files home home.travel",
    "sealed_export": "errors files home keychain remote.* text",
    "sharing": "errors home keychain remote remote.* store.remotes text travel.alone"
    " travel.circling travel.reach travel.session_keys travel.visit",
    # façade: two halves of one, a home and its sessions
    "who": "home layout process remote.code store.remotes",
    "arrival": "holdfast errors clock config files git hidden home keychain model.* place"
    " sha store.remotes text travel.background verb who workspace",
    "survey": "arrival place prove text verb who model.* store.local",
    "beginning": "errors choice chore clock essay home layout.* model.* place process session sha"
    " text workflow",
    "verb.agent": "model.event session text",
    "verb.*": "errors child home journal model.* phase pipeline place prove"
    " revisit store touch verb.*",
    "home.layout": "adopt cleanup config contract convert essay found glance home inspection"
    " layout.ai_session layout.contract live model.* orchestrator recover retell session"
    " store.bound surroundings workflow",
    "home.travel": "arrival home keychain layout layout.customs remote.circle"
    " remote.code sharing store.remotes travel.background travel.remotes travel.visit who",
    "home": "errors arrival backup beginning chore clock config derived doctor expiry"
    " files greeting home.* hooks.install hooks.spool hooks.survey ingest journal"
    " layout.translate mirror mirror.desk move pack place process redact remedy restore"
    " sealed_export session soundness store store.bound store.local text verb view who workspace",
    "session": "errors sha arrival backup chore erasure essay layout layout.ai_session model.*"
    " process recover expiry soundness store store.bound store.local survey text"
    " timeline touch verb.* view who sealed_export",
    # port and adapters: they know the port and the event, never the engine
    "store.*": "errors clock files mount sha model.content model.event store.*",
    "remote": "config errors remote.*",
    "remote.*": "errors clock files sha text remote.*",
    # public names, surfaces, and what is shipped for the tests of others
    "holdfast": "errors home kinds session verb.agent",
    "__main__": "cli",
    "compat": "errors beginning clock exchange files home layout.* orchestrator place"
    " praxis_workflow store.bound text",
    "cli.*": "holdfast errors clock config fault plain text timing evidence home session view"
    " timeline doctor phase pipeline"
    " adopt cleanup contract essay inspection live layout layout.ai_session layout.contract"
    " orchestrator arrival child prove recover restore revisit soundness store.bound"
    " store.remotes choice travel.background travel.exchange travel.remotes travel.visit"
    " model.brief"
    " model.event model.gate model.plan model.state model.summary workflow hooks.agents"
    " hooks.install ingest mcp.* cli.* move retell transcript keychain remote.circle remote.code"
    " sharing",
    "mcp.*": "holdfast errors child choice clock fault files home plain session text timeline view"
    " model.event mcp.*",
    "testing.*": "errors model.* remote store testing.*",
}

# Third-party package → who may import it.
THIRD_PARTY = {
    "msgspec": "model.* layout.* adopt beginning child cleanup compat conversation convert derived"
    " arrival erasure essay evidence expiry ingest verb.settle"
    " found hooks.heard hooks.install hooks.scan hooks.tool inputs inspection intake journal live"
    " mirror.* orchestrator pack travel.quick_pack travel.parcels phase pipeline praxis_workflow"
    " prove recover revisit session soundness testing.* timeline touch transcript.* union workflow"
    " mcp.* retell remote.* surroundings",
    "yaml": "layout.guarded",
    "_sha2": "sha",  # of the standard library, but not in every version
    "shtab": "cli.*",
    "mcp": "mcp.server mcp.http cli.mcp",
    "mcp_types": "mcp.server",
    "anyio": "mcp.server mcp.http cli.mcp",
    "starlette": "mcp.http",
    "uvicorn": "mcp.http",
    "pyrage": "remote.keys",
    "cryptography": "remote.keys",
    "keyring": "remote.keys",
    "isal": "travel.quick_pack",
    "obstore": "remote.s3",
    "psycopg": "store.postgres.*",
    "pytest": "testing.*",
}

# Pure modules see no file, clock, network, environment or chance.
PURE = "errors choice redact sha text timing model.* hooks.heard hooks.tool hooks.wire"
PURE += " hooks.wire_opencode"
PURE_STDLIB = """
    __future__ _sha2 _sha256 base64 binascii bisect collections dataclasses datetime difflib
    enum fnmatch
    functools hashlib heapq hmac html itertools json math operator re string struct textwrap
    types typing unicodedata
""".split()
IMPURE_CALLS = "open now utcnow today input print exec eval".split()

# Modules that every `holdfast status` loads, and what is too heavy to be loaded with them.
HOT = """
    holdfast errors choice clock config files home.* place process
    session sha text timing verb verb.essay verb.plan verb.settle view workspace store.*
    cli cli.arguments cli.dispatch cli.light cli.screen cli.status cli.table
"""
HEAVY = """
    asyncio contextlib dataclasses hypothesis importlib inspect logging msgspec multiprocessing
    pathlib pytest shtab shutil subprocess tempfile typing unittest urllib
""".split()


# One that Python had until 3.11 is asked for where there is no newer one.
STANDARD = sys.stdlib_module_names | {"_sha256"}


def test_every_module_has_a_row() -> None:
    homeless = [name for name in modules() if row_of(name) is None]
    assert not homeless, f"in no row of ALLOWED: {homeless}; decide where they belong and add a row"


@pytest.mark.parametrize("row", ALLOWED)
def test_imports_point_down_and_inward(row: str) -> None:
    for name in modules():
        if row_of(name) == row:
            bad = [seen for seen in ours(name) if not matches(seen, ALLOWED[row])]
            assert not bad, f"{name} must not import {bad}; {row} may import: {ALLOWED[row]}"


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
        if not matches(name, "config testing.*"):
            read = {getattr(node, "attr", "") for node in ast.walk(tree(name))}
            assert not read & {"environ", "environb", "getenv"}, f"{name}: ask config instead"


def test_start_up_path_loads_nothing_heavy() -> None:
    for name in modules():
        if matches(name, HOT):
            bad = [s for s in loaded(name) if not s.startswith("holdfast") and _top(s) in HEAVY]
            assert not bad, f"{name} is loaded at every start: import {bad} where it is needed"


def test_start_up_path_loads_only_itself() -> None:
    for name in modules():
        if matches(name, HOT):
            bad = [seen for seen in within(loaded(name)) if not matches(seen, HOT)]
            assert not bad, f"{name} is loaded at every start: import {bad} where it is needed"


def test_layouts_load_nothing_that_few_of_their_files_need() -> None:
    for name in modules():
        rare = "layout.praxis.state layout.praxis.context"  # for `compat`, and who asks for it
        there = "layout.* mirror.* found inspection adopt convert"
        if matches(name, there) and not matches(name, rare):
            bad = [s for s in loaded(name) if _top(s) in ("yaml", "dataclasses")]
            assert not bad, f"{name} is loaded for every file: import {bad} where it is needed"


# --- reading the source --------------------------------------------------------------------------


@cache
def modules() -> dict[str, Path]:
    """Every module by its short name: `store.sqlite`, and `holdfast` for the package itself."""
    return {_short(path): path for path in sorted(SOURCE.rglob("*.py"))}


def _short(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "holdfast"


@cache
def row_of(name: str) -> str | None:
    return next((row for row in ALLOWED if matches(name, row)), None)


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
    """The modules of Holdfast that this one imports anywhere, by short name."""
    return within(imported(name, ast.walk(tree(name))))


def others(name: str) -> list[str]:
    return [s for s in imported(name, ast.walk(tree(name))) if _top(s) != "holdfast"]


def loaded(name: str) -> list[str]:
    """What importing this module imports at once: not what functions or type checkers do."""
    return imported(name, _at_once(tree(name).body))


def within(names: list[str]) -> list[str]:
    return [s.removeprefix("holdfast.") for s in names if _top(s) == "holdfast"]


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
    here = ["holdfast", *([] if name == "holdfast" else name.split("."))]
    is_package = modules()[name].name == "__init__.py"
    up = here[: len(here) - node.level + is_package]
    return ".".join([*up, *([node.module] if node.module else [])])


def _module_or_member(base: str, member: str) -> str:
    return f"{base}.{member}" if f"{base}.{member}".removeprefix("holdfast.") in modules() else base


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
