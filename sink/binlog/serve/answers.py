"""What a replica asks before it asks for events: variables, and where the files are."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

Answer = tuple[list[str], list[list[str | None]]]
"""Names of columns, and rows."""

_SET = re.compile(r"\s*SET\s+(.*)\Z", re.I | re.S)
_ASSIGNED = re.compile(r"\s*(@?[\w.]+)\s*:?=\s*('(?:[^'\\]|''|\\.)*'|[^,]+?)\s*(?:,|\Z)", re.S)
_SELECT = re.compile(r"\s*SELECT\s+(@@?[\w.]+)\s*(?:;\s*)?\Z", re.I)
_LIKE = re.compile(r"\s*SHOW\s+(?:GLOBAL\s+)?VARIABLES\s+LIKE\s+'([^']*)'\s*\Z", re.I)
_FILES = re.compile(r"\s*SHOW\s+(?:BINARY|MASTER)\s+LOGS\s*\Z", re.I)
_STATUS = re.compile(r"\s*SHOW\s+(?:MASTER|BINARY\s+LOG|BINLOG)\s+STATUS\s*\Z", re.I)


class NotUnderstood(Exception):
    """A query that no replica asks."""


@dataclass
class Asked:
    """``variables`` are the server's, by lower-case name; ``said`` what the replica has set."""

    variables: Mapping[str, str]
    said: dict[str, str | None] = field(default_factory=dict)

    def answer(self, sql: str, files: list[tuple[str, int]]) -> Answer | None:
        """The answer, None for OK; ``files`` with their lengths. Raises NotUnderstood."""
        if found := _SET.match(sql):
            for name, value in _ASSIGNED.findall(found[1]):
                self.said[name.lower()] = self._value(value.strip())
            return None
        if re.match(r"\s*SELECT\s+UNIX_TIMESTAMP\(\)", sql, re.I):
            return ["UNIX_TIMESTAMP()"], [[str(int(time.time()))]]
        if re.match(r"\s*SELECT\s+VERSION\(\)\s*\Z", sql, re.I):
            return ["VERSION()"], [[self.variables["version"]]]
        if found := _SELECT.match(sql):
            return [found[1]], [[self._value(found[1])]]
        if found := _LIKE.match(sql):
            value = self.variables.get(found[1].lower())
            rows: list[list[str | None]] = [] if value is None else [[found[1], value]]
            return ["Variable_name", "Value"], rows
        if _FILES.match(sql):
            return ["Log_name", "File_size"], [[name, str(size)] for name, size in files]
        if _STATUS.match(sql):
            last: list[list[str | None]] = [[name, str(size), "", ""] for name, size in files[-1:]]
            return ["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB"], last
        raise NotUnderstood(sql)

    def _value(self, text: str) -> str | None:
        if text.startswith("@@"):
            name = text[2:].lower().removeprefix("global.").removeprefix("session.")
            if name not in self.variables:
                raise NotUnderstood(text)
            return self.variables[name]
        if text.startswith("@"):
            return self.said.get(text.lower())
        return text[1:-1] if text.startswith("'") else text
