"""The list of the file formats, without loading any of them: hooks read it at every start."""

from __future__ import annotations

REGISTRY: dict[str, tuple[str, str]] = {
    "ai-session": ("forestay.formats.ai_session.format", ".ai-session"),
    "praxis": ("forestay.formats.praxis.format", ".praxis-os/.cache/state"),
    "craft": ("forestay.formats.craft.format", ".craft/cache/orchestration-sessions"),
    "essay": ("forestay.formats.essay.format", ""),
    "orchestrator": ("forestay.formats.orchestrator.format", ".claude"),
}
"""Format id → its module, and its root folder in a project (empty: one per session)."""

SESSION_FILES: dict[str, tuple[str, ...]] = {
    "ai-session": (
        ".ai-session/*/state.yaml",
        ".ai-session/*/implementation-plan.yaml",
        ".ai-session/*/history.jsonl",
    ),
    "praxis": (
        ".praxis-os/.cache/state/*.json",
        ".praxis-os/state/workflow/active/*.json",
        ".praxis-os/state/workflow/completed/*.json",
        ".praxis-os/state/workflow/error/*.json",
    ),
    "craft": (".craft/cache/orchestration-sessions/*.json",),
    "orchestrator": (".claude/orchestrator-session.json",),
}
"""Format id → pattern of session files, if the root folder also contains other files."""
