"""Starts the MCP server of Holdfast for Claude Desktop."""

import sys

from holdfast.cli import entry

sys.argv[1:] = ["mcp", "--desktop"]
entry()
