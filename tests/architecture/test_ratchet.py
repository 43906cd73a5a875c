"""The shape of the source may only get better: every figure has a limit that is only lowered."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from tests.architecture import measure

LIMITS = {
    "largest import cycle": 1,
    "lazy imports": 233,
    "top-level entries": 24,
    "repeated module names": 36,
    "repeated class names": 51,
    "code lines": 58_600,
    "methods of Store": 9,
    "methods of View": 10,
}

BEHAVIOURS = tomllib.loads((Path(__file__).parent / "behaviours.toml").read_text())["behaviour"]


@pytest.mark.parametrize("figure", LIMITS)
def test_figure_stays_within_its_limit(figure: str) -> None:
    measured = measure.all_figures()[figure]
    print(f"{figure}: {measured} (limit {LIMITS[figure]})")
    assert measured <= LIMITS[figure]


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda one: str(one["file"]))
def test_behaviour_is_in_the_file_named_for_it(behaviour: dict[str, str]) -> None:
    source = (measure.SOURCE / behaviour["file"]).read_text(encoding="utf-8")
    assert behaviour["name"] in _defined_names(ast.parse(source))


def _defined_names(tree: ast.Module) -> set[str]:
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {one.id for one in node.targets if isinstance(one, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names
