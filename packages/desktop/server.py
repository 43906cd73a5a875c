"""Starts the MCP server of Forestay for Claude Desktop."""

import sys

from forestay.cli.main import entry

sys.argv[1:] = ["mcp", "--desktop"]
entry()
