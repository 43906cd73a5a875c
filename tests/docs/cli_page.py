"""Write docs/cli.md from the commands: python -m tests.docs.cli_page > docs/cli.md"""

from __future__ import annotations

from forestay.cli.help import ABOUT, USAGE, parser_of, shared_options
from forestay.cli.table import GROUPS
from forestay.errors import EXIT_CODES

_ENVIRONMENT = (
    ("FORESTAY_HOME", "the folder of all data"),
    ("FORESTAY_STORE", "the database, if not the one in the home"),
    ("FORESTAY_SESSION", "the session to use"),
    ("FORESTAY_…", "any other setting of `forestay config`, in capitals"),
    ("FORESTAY_DEBUG", "not empty: show the traceback of a bug"),
    ("NO_COLOR", "not empty: no color"),
    ("PAGER", "the command that shows long output on a terminal"),
)


def document() -> str:
    """Return the page: every command with its arguments and options."""
    parts = ["# The command line\n", f"{ABOUT} Usage: `{USAGE}`\n"]
    parts.append("Options, before or after the command:\n")
    parts += [f"- `{names}` {help}" for names, help in shared_options()]
    parts.append("\nEnvironment:\n")
    parts += [f"- `{name}` {help}" for name, help in _ENVIRONMENT]
    parts.append("\nExit codes:\n")
    parts += [f"- {code}: {meaning}" for code, meaning in EXIT_CODES]
    for group, commands in GROUPS.items():
        parts.append(f"\n## {group}")
        for name in commands:
            # Without the line about shared options.
            page = parser_of(name).format_help().rstrip().rpartition("\n\n")[0]
            parts.append(f"\n### {name}\n\n```\n{page}\n```")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    print(document(), end="")
