"""Run git. No other module starts it.

Variables such as GIT_DIR cannot redirect git to another repository. It asks the user nothing,
fetches nothing, takes no lock, and has a time limit.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from forestay.workspace.tree import Tree

_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}


def run_git(
    tree: Tree, environ: Mapping[str, str], *arguments: str, timeout: float
) -> bytes | None:
    """Return what git prints in the tree; None if it fails, times out, or there is no repository.

    `environ` is the environment for git, without git's own variables.
    """
    if tree.git_dir is None:
        return None
    import subprocess  # start-up: most commands never run git

    clean = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            # With -C instead of --git-dir git itself refuses a repository of another user.
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
