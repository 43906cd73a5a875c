"""Measure the shape of the source: rooms, import cycles, code lines, repeated names.

An import counts wherever it is written: at the top, inside a function, or for type checkers only.
Code lines are lines with a token on them that is not a comment or part of a docstring.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGE = "forestay"
SOURCE = ROOT / "src" / PACKAGE
_NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name, its syntax tree, and what it imports of this package."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


@cache
def modules() -> dict[str, Module]:
    """Every module of the package by its dotted name, `forestay.model.fold` for example."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        found[name] = Module(name, path, ast.parse(path.read_text(encoding="utf-8")))
    return found


def imports_of(module: Module, *, lazy_only: bool = False) -> set[str]:
    """The modules of this package that a module imports; `lazy_only`: those inside functions."""
    nodes = ast.walk(module.tree)
    if lazy_only:
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        inside = [f for f in ast.walk(module.tree) if isinstance(f, functions)]
        nodes = (node for function in inside for node in ast.walk(function))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in found if name in modules() and name != module.name}


def lazy_imports() -> int:
    return sum(len(imports_of(module, lazy_only=True)) for module in modules().values())


def largest_cycle() -> list[str]:
    """The largest set of modules that all reach each other by imports; one module is no cycle."""
    edges = {name: imports_of(module) for name, module in modules().items()}
    return max(_components(edges), key=len)


def _components(edges: dict[str, set[str]]) -> list[list[str]]:
    """Tarjan's strongly connected components, without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []
    for root in edges:
        if root in index:
            continue
        work = [(root, iter(sorted(edges[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, successors = work[-1]
            after = next((one for one in successors if one not in index or one in stack), None)
            if after is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    cut = stack.index(node)
                    components.append(stack[cut:])
                    del stack[cut:]
            elif after in index:
                low[node] = min(low[node], index[after])
            else:
                index[after] = low[after] = len(index)
                stack.append(after)
                work.append((after, iter(sorted(edges[after]))))
    return components


def top_level_entries() -> list[str]:
    return sorted(path.name for path in SOURCE.iterdir() if path.name != "__pycache__")


def code_lines(module: Module) -> int:
    docstrings = {
        line
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    source = module.path.read_text(encoding="utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def repeated_module_names() -> Counter[str]:
    """How often the last part of a module's name is used, for those used more than once."""
    last = (name.rpartition(".")[2] for name, one in modules().items() if not one.is_package)
    return Counter({name: n for name, n in Counter(last).items() if n > 1})


def repeated_class_names() -> Counter[str]:
    classes = (
        node.name
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    )
    return Counter({name: n for name, n in Counter(classes).items() if n > 1})


def members(module: str, class_name: str) -> list[str]:
    """The public methods and properties of a class."""
    for node in ast.walk(modules()[module].tree):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            functions = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            return [one.name for one in functions if not one.name.startswith("_")]
    raise LookupError(f"no class {class_name} in {module}")


@cache
def all_figures() -> dict[str, int]:
    """Every figure of the ratchet by its name in `LIMITS`."""
    return {
        "largest import cycle": len(largest_cycle()),
        "lazy imports": lazy_imports(),
        "top-level entries": len(top_level_entries()),
        "repeated module names": len(repeated_module_names()),
        "repeated class names": len(repeated_class_names()),
        "code lines": sum(map(code_lines, modules().values())),
        "methods of Store": len(members(f"{PACKAGE}.store.port", "Store")),
        "methods of View": len(members(f"{PACKAGE}.store.port", "View")),
    }
