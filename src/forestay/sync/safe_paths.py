"""Hidden files that a session may bring back: those that make no tool run anything.

Hooks of git, settings of agents and editors, what shells and package managers read: most of what
is hidden is run unasked by something, and a session may be another person's. Nobody can list all
of that, and there is more every year. So what may be written is listed instead: whoever reads such
a file learns what to leave out, how text is laid out, and can be led to nothing else. Not so where
it says which version is meant: several tools take that for a path to the program. What lies in
`.github` is for the server it is pushed to, and was looked at by then; of its folders, though, some
belong to agents on this machine.

Two names that are not hidden count as such. On a disk of Windows `GIT~1` is another name of `.git`.
And a folder with a `HEAD` may be a repository, whose settings git obeys in there.
"""

from __future__ import annotations

import re
from unicodedata import category

_LEAVE_OUT = """.gitignore .dockerignore .npmignore .eslintignore .prettierignore .stylelintignore
.gcloudignore .vercelignore .helmignore .ignore .rgignore"""
_LAY_OUT = ".editorconfig .clang-format .yamllint .gitattributes"
_MARKS = ".gitkeep .keep .nojekyll .mailmap"
_ON_A_SERVER = ".gitlab-ci.yml .travis.yml .readthedocs.yaml .readthedocs.yml"
PLAIN = frozenset(f"{_LEAVE_OUT} {_LAY_OUT} {_MARKS} {_ON_A_SERVER}".split())
GITHUB = frozenset(
    """workflows actions ISSUE_TEMPLATE PULL_REQUEST_TEMPLATE DISCUSSION_TEMPLATE CODEOWNERS
    CODE_OF_CONDUCT.md CONTRIBUTING.md FUNDING.yml ISSUE_TEMPLATE.md PULL_REQUEST_TEMPLATE.md
    README.md SECURITY.md SUPPORT.md dependabot.yml labeler.yml pull_request_template.md
    release.yml""".split()
)
"""What may be in `.github`: not `hooks`, `agents`, `instructions` …, nor unknown names."""


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
    # Some file systems ignore invisible characters: such a name would be another one there.
    return "".join(sign for sign in part if category(sign) != "Cf").casefold()


def _is_plain(part: str, below: list[str]) -> bool:
    if part == ".github":
        return bool(below) and below[0] in GITHUB
    return part in PLAIN and not below
