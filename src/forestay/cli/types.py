"""The types that most commands name in their signatures; for type checkers only."""

from argparse import Namespace
from typing import Any

from forestay.api.forestay import Forestay
from forestay.api.session import Session
from forestay.cli.terminal import Part, Screen
from forestay.model.event import Event

__all__ = ["Any", "Event", "Forestay", "Namespace", "Part", "Screen", "Session"]
