"""docs/plans.md has a valid definition, rules that parse, and complete tables."""

from __future__ import annotations

import re
from pathlib import Path

from forestay.model.gates.expression import FUNCTIONS, parse_rule
from forestay.model.plan import TYPES
from forestay.plans import workflows, yaml_definition

PAGE = (Path(__file__).parents[2] / "docs" / "plans.md").read_text(encoding="utf-8")


def test_the_plan_definition_on_the_page_is_valid_and_has_every_key() -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    made, findings = yaml_definition.read(shown.encode(), "plans.md")
    assert made is not None and not findings
    for kind in ("workflow", "phase", "task", "rule", "expiry"):
        for key in yaml_definition.KEYS[kind]:
            assert f"{key}:" in shown or key == "format", key
    for word in (*yaml_definition.KEYS["field"], *TYPES):
        assert f"`{word}`" in PAGE, word


def test_the_rules_on_the_plans_page_can_be_parsed() -> None:
    blocks = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
    (shown,) = [block for kind, block in blocks if not kind]
    rules = shown.strip().split("\n")
    assert len(rules) > 4
    for rule in rules:
        assert parse_rule(rule).fields
    for name in FUNCTIONS:
        assert f"{name}(" in PAGE


def test_the_plans_page_lists_exactly_the_built_in_workflows(tmp_path: Path) -> None:
    built_in = PAGE.partition("3. among those built in:")[2].partition("##")[0]
    listed = re.findall(r"^\| `([a-z-]+)` \| (\w+)", built_in, re.M)
    found = {each.name: each.phases for each in workflows.available(str(tmp_path))}
    assert {name: 0 if count == "none" else int(count) for name, count in listed} == found
