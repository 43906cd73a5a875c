"""Which hidden files a session may restore."""

from __future__ import annotations

import pytest

from forestay.sync.safe_paths import is_harmless

MAY = [
    "a.py",
    "a~",
    "notes.txt.~1~",
    "overhead/ahead.c",
    "HEAD/a.py",
    ".gitignore",
    "sub/.gitignore",
    ".editorconfig",
    ".github/workflows/test.yml",
    ".github/CODEOWNERS",
    "sub/.github/ISSUE_TEMPLATE/bug.md",
]
MAY_NOT = [
    ".git/hooks/post-checkout",
    ".Git/config",
    "\u200c.git/config",
    ".g\u200cit/config",
    ".claude/settings.json",
    ".mcp.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".cursor/rules",
    ".vscode/tasks.json",
    ".devcontainer/devcontainer.json",
    ".husky/pre-commit",
    ".pre-commit-config.yaml",
    ".envrc",
    ".env",
    ".npmrc",
    ".yarnrc.yml",
    ".eslintrc.js",
    ".cargo/config.toml",
    ".python-version",
    ".gitmodules",
    ".gitignore/hooks/x",
    ".github",
    ".github/hooks/run.json",
    ".github/Workflows/.vscode/tasks.json",
    ".github/workflows/.vscode/tasks.json",
    ".github/copilot-instructions.md",
    ".github/agents/a.md",
    ".unheard-of",
    ".nvmrc",
    ".node-version",
    ".ruby-version",
    ".java-version",
    "GIT~1/hooks/post-checkout",
    "sub/gi7eba~1/config",
    "MCP~1.JSO",
    "sub/HEAD",
    "sub/head",
    "..",
]


@pytest.mark.parametrize("path", MAY)
def test_files_that_no_program_executes_may_be_written(path: str) -> None:
    assert is_harmless(path)


@pytest.mark.parametrize("path", MAY_NOT)
def test_other_hidden_files_may_not_be_written(path: str) -> None:
    assert not is_harmless(path)
