"""Builds what agents install us by, from packages/ and the wheel that lies in the same folder.

    python scripts/packages.py dist

makes the Claude Code plugin (zip), the extension for Claude Desktop (.mcpb, with the wheel inside)
and the entry for the registry of MCP servers (server.json). The same input gives the same bytes.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "packages"
_BEGINNING = (1980, 1, 1, 0, 0, 0)


def version() -> str:
    text = (ROOT / "src/forestay/base/version.py").read_text("utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert found, "the package says its version"
    return found.group(1)


def stated_versions() -> dict[str, list[str]]:
    """Every version that a file of packages/ gives, to be held against the program's own."""

    def said(name: str) -> object:
        return json.loads((PACKAGES / name).read_text("utf-8"))

    plugin, manifest = said("claude-code/.claude-plugin/plugin.json"), said("desktop/manifest.json")
    entry = said("server.json")
    desktop = (PACKAGES / "desktop/pyproject.toml").read_text("utf-8")
    return {
        "plugin.json": [plugin["version"]],  # type: ignore[index]
        "manifest.json": [manifest["version"]],  # type: ignore[index]
        "server.json": [entry["version"], entry["packages"][0]["version"]],  # type: ignore[index]
        "pyproject.toml": re.findall(r'(?:version = "|forestay-)(\d[\w.]*)(?:"|-py3)', desktop),
    }


def build(target: Path) -> list[Path]:
    number = version()
    for name, stated in stated_versions().items():
        if set(stated) != {number}:
            raise SystemExit(f"packages: {name} says {stated}, the program is {number}")
    wheel = target / f"forestay-{number}-py3-none-any.whl"
    if not wheel.exists():
        raise SystemExit(f"packages: {wheel} is missing; `make dist` builds it first")
    made = [
        _zip(target / f"forestay-claude-code-{number}.zip", _files(PACKAGES / "claude-code")),
        _zip(
            target / f"forestay-{number}.mcpb",
            {**_files(PACKAGES / "desktop"), wheel.name: wheel, "LICENSE": ROOT / "LICENSE"},
        ),
        target / "server.json",
    ]
    shutil.copyfile(PACKAGES / "server.json", made[-1])
    return made


def _files(folder: Path) -> dict[str, Path]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(folder).as_posix(): path for path in found}


def _zip(target: Path, files: dict[str, Path]) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            info = zipfile.ZipInfo(name, _BEGINNING)
            mode = 0o755 if path.suffix == ".sh" else 0o644
            info.external_attr = mode << 16
            archive.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return target


if __name__ == "__main__":
    for made in build(Path(sys.argv[1])):
        sys.stdout.write(f"{made}\n")
