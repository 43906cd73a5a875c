"""Decide which hidden files of a session are safe to write: those that no tool executes.

A session can come from another person, and tools execute or apply many hidden files without asking:
hooks of git, settings of agents and editors, files of shells and package managers. No list of those
could be complete, so this module lists the allowed names: files that only define what to ignore or
how text is formatted. Files that name a version are not allowed: several tools accept a path to a
program in them. Files in `.github` are for the server, where a push is reviewed; some folders in it
are for agents on this machine and are not allowed.

Two more names count as hidden. On a Windows disk `GIT~1` is another name of `.git`. And a folder
with a file `HEAD` may be a repository, whose settings git applies in that folder.
"""

from __future__ import annotations

import re
from unicodedata import category

_IGNORES = """.gitignore .dockerignore .npmignore .eslintignore .prettierignore .stylelintignore
.gcloudignore .vercelignore .helmignore .ignore .rgignore"""
_FORMATTING = ".editorconfig .clang-format .yamllint .gitattributes"
_MARKERS = ".gitkeep .keep .nojekyll .mailmap"
_ON_A_SERVER = ".gitlab-ci.yml .travis.yml .readthedocs.yaml .readthedocs.yml"
PLAIN = frozenset(f"{_IGNORES} {_FORMATTING} {_MARKERS} {_ON_A_SERVER}".split())
GITHUB = frozenset(
    """workflows actions ISSUE_TEMPLATE PULL_REQUEST_TEMPLATE DISCUSSION_TEMPLATE CODEOWNERS
    CODE_OF_CONDUCT.md CONTRIBUTING.md FUNDING.yml ISSUE_TEMPLATE.md PULL_REQUEST_TEMPLATE.md
    README.md SECURITY.md SUPPORT.md dependabot.yml labeler.yml pull_request_template.md
    release.yml""".split()
)
"""The allowed names in `.github`; not `hooks`, `agents`, `instructions` and others."""


_SHORT = re.compile(r"[^.~]{1,6}~[0-9]{1,4}(\.[^.]{0,3})?")
"""The short second name of a file on a Windows disk."""


def is_harmless(path: str) -> bool:
    """Return whether a path has no hidden part, or only parts that no program executes."""
    parts = path.split("/")
    return _as_seen(parts[-1]) != "head" and all(
        _is_plain(part, parts[at + 1 :]) for at, part in enumerate(parts) if _is_hidden(part)
    )


def _is_hidden(part: str) -> bool:
    seen = _as_seen(part)
    return seen.startswith(".") or bool(_SHORT.fullmatch(seen))


def _as_seen(part: str) -> str:
    # Some file systems ignore invisible characters: there, such a name is the name of another file.
    return "".join(sign for sign in part if category(sign) != "Cf").casefold()


def _is_plain(part: str, below: list[str]) -> bool:
    if part == ".github":
        return bool(below) and below[0] in GITHUB
    return part in PLAIN and not below
