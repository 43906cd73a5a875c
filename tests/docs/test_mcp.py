"""docs/mcp.md lists what the server offers. To update its generated parts:

python -m tests.docs.test_mcp
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay.briefing.token_estimate import estimate
from forestay.mcp.tool_schemas import (
    CURRENT,
    INSTRUCTIONS,
    PROMPTS,
    TEMPLATES,
    TOOLS,
    VERBS,
    Tool,
    read_verb,
)
from forestay.mcp.tools import ToolRunner
from tests.docs.test_formats import replace_generated

PAGE = Path(__file__).parents[2] / "docs" / "mcp.md"


def tools() -> str:
    return "\n\n".join(map(_tool, TOOLS.values()))


def _tool(tool: Tool) -> str:
    words = ("changes nothing", "runs commands", "may be repeated with its key", "")
    hints = [word for word, hint in zip(words, tool.hints, strict=True) if hint and word]
    if tool.hints[0]:
        hints = hints[:1]
    lines = [f"### {tool.name}", "", f"{tool.title}: {'; '.join(hints)}. {_about(tool)}", ""]
    lines += ["| argument | type | meaning |", "|---|---|---|"]
    lines += [_argument(name, schema, name in tool.needs) for name, schema in tool.takes.items()]
    lines += ["", f"Answers with {', '.join(f'`{name}`' for name in tool.gives)}.", "", "```json"]
    lines += [json.dumps(example, ensure_ascii=False) for example in tool.examples]
    return "\n".join([*lines, "```", *(_events() if tool.name == "record" else [])])


def _about(tool: Tool) -> str:
    if tool.name != "record":
        return tool.about
    first, _, rest = tool.about.partition(" Each event is one of")
    return f"{first} Events are in the table below.{rest[rest.index('. for_next') + 1 :]}"


def _argument(name: str, schema: dict[str, Any], needed: bool) -> str:
    kind = schema["type"] + (f" of {schema['items']['type']}s" if "items" in schema else "")
    limits = [f"{word} {schema[key]}" for word, key in _LIMITS if key in schema]
    meaning = [schema.get("description", ""), ", ".join(schema.get("enum", [])), ", ".join(limits)]
    mark = ", needed" if needed else ""
    return f"| `{name}` | {kind}{mark} | {'; '.join(filter(None, meaning))} |"


_LIMITS = (
    ("from", "minimum"),
    ("to", "maximum"),
    ("at least", "minItems"),
    ("at most", "maxItems"),
)


def _events() -> list[str]:
    rows = ["", "| event | needs | may have |", "|---|---|---|"]
    for name in VERBS:
        known = read_verb(name)
        needs, takes = (", ".join(f"`{n}`" for n in names) for names in (known.needs, known.takes))
        rows.append(f"| `{name}` | {needs} | {takes} |")
    return rows


def others() -> str:
    rows = ["| address | what | type |", "|---|---|---|"]
    rows += [
        f"| `{uri}` | {about} | {kind} |"
        for uri, (_, about, kind) in {**CURRENT, **TEMPLATES}.items()
    ]
    rows += ["", "| prompt | what |", "|---|---|"]
    rows += [f"| `{each.name}` | {each.about} |" for each in PROMPTS.values()]
    return "\n".join(rows)


def costs() -> str:
    """Return a table of token estimates, which are never below a tokenizer's count."""
    seen = sum(_tokens(tool, "name", "description", "inputSchema") for tool in TOOLS.values())
    whole = sum(_tokens(tool) for tool in TOOLS.values())
    rows = ["| what a model reads | tokens at most |", "|---|---|"]
    rows += [f"| names, descriptions and arguments of all tools | {seen:,} |"]
    rows += [f"| all of `tools/list`, with the schemas of answers and annotations | {whole:,} |"]
    return "\n".join([*rows, f"| the server's instructions | {estimate(INSTRUCTIONS):,} |"])


def _tokens(tool: Tool, *names: str) -> int:
    from forestay.mcp.server import _tool as wire_tool

    described = wire_tool(tool).model_dump(by_alias=True, mode="json", exclude_none=True)
    shown = {name: value for name, value in described.items() if not names or name in names}
    return estimate(json.dumps(shown, separators=(",", ":"), ensure_ascii=False))


GENERATED = {"tools": tools, "others": others, "costs": costs}


def test_the_mcp_page_lists_exactly_what_the_server_offers() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == replace_generated(page, GENERATED)


def test_every_example_of_an_mcp_tool_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(TOOLS["prove"].examples[0], "command", ["true"])
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("")
    with forestay.open() as stay:
        stay.start("Read before anything is there", workflow="feature")
        runner = ToolRunner(stay, [])
        for tool in TOOLS.values():
            for example in tool.examples:
                if tool.name == "checkpoint":
                    stay.start("Phases", workflow="spec-execution", key="p")
                answer = runner.call(tool.name, example).values
                assert answer["ok"] or tool.name == "checkpoint", (tool.name, answer)


def test_the_mcp_page_names_all_fourteen_required_actions() -> None:
    page, listed = PAGE.read_text(encoding="utf-8"), (PAGE.parent / "requirements.md").read_text()
    (line,) = re.findall(r"^- X1-11 .*?: (.*?) \(", listed, re.MULTILINE)
    names = line.split(", ")
    assert len(names) == 14
    assert not [name for name in names if f"`{name}`" not in page]


if __name__ == "__main__":
    PAGE.write_text(
        replace_generated(PAGE.read_text(encoding="utf-8"), GENERATED), encoding="utf-8"
    )
