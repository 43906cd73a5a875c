"""Hidden files that a session may bring back: those that make no tool run anything.

Hooks of git, settings of agents and editors, what shells and package managers read: most of what
is hidden is run unasked by something, and a session may be another person's. Nobody can list all
of that, and there is more every year. So what may be written is listed instead: whoever reads such
a file learns what to leave out, how text is laid out, which version is meant, and can be led to
nothing else. What lies in `.github` is for the server it is pushed to, and was looked at by then;
of its folders, though, some belong to agents on this machine.
"""

from __future__ import annotations

from unicodedata import category

_LEAVE_OUT = """.gitignore .dockerignore .npmignore .eslintignore .prettierignore .stylelintignore
.gcloudignore .vercelignore .helmignore .ignore .rgignore"""
_LAY_OUT = ".editorconfig .clang-format .yamllint .gitattributes"
_VERSIONS = ".nvmrc .node-version .ruby-version .java-version"
_MARKS = ".gitkeep .keep .nojekyll .mailmap"
_ON_A_SERVER = ".gitlab-ci.yml .travis.yml .readthedocs.yaml .readthedocs.yml"
PLAIN = frozenset(f"{_LEAVE_OUT} {_LAY_OUT} {_VERSIONS} {_MARKS} {_ON_A_SERVER}".split())
GITHUB = frozenset(
    """workflows actions ISSUE_TEMPLATE PULL_REQUEST_TEMPLATE DISCUSSION_TEMPLATE CODEOWNERS
    CODE_OF_CONDUCT.md CONTRIBUTING.md FUNDING.yml ISSUE_TEMPLATE.md PULL_REQUEST_TEMPLATE.md
    README.md SECURITY.md SUPPORT.md dependabot.yml labeler.yml pull_request_template.md
    release.yml""".split()
)
"""What may lie in `.github`: not `hooks`, `agents`, `instructions` …, nor what is yet to come."""


def is_harmless(path: str) -> bool:
    """Whether a path has no hidden part, or only such that nothing is run by."""
    parts = path.split("/")
    return all(
        _is_plain(part, parts[at + 1 :]) for at, part in enumerate(parts) if _is_hidden(part)
    )


def _is_hidden(part: str) -> bool:
    # Some file systems pass over signs that nobody sees: such a name would be another one there.
    return "".join(sign for sign in part if category(sign) != "Cf").startswith(".")


def _is_plain(part: str, below: list[str]) -> bool:
    if part == ".github":
        return bool(below) and below[0] in GITHUB
    return part in PLAIN and not below
