"""Asking git: the one place that starts it.

The secret is what keeps an answer honest and quick: no variable of git's own leads to another
repository, nothing is asked of a person or fetched, no lock is taken, and time is limited.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.place import Tree

_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}


def ask(tree: Tree, environ: Mapping[str, str], *arguments: str, timeout: float) -> bytes | None:
    """What git prints in the tree; None if it fails, takes too long, or there is no repository.

    `environ` is what git is started with, apart from its own variables.
    """
    if tree.git_dir is None:
        return None
    import subprocess  # most who might ask have nothing to ask

    clean = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            # By -C and not --git-dir, so that git itself refuses a repository of another user.
            ["git", "--no-optional-locks", "-C", tree.root, *arguments],
            env={**clean, **_QUIET},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
