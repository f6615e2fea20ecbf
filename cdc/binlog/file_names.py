"""Names of binlog files: ``base.000001`` … ``base.999999``, ``base.1000000``, ordered by number."""

from __future__ import annotations

import re
from typing import NamedTuple

from cdc.base.errors import InvalidError

_NAME = re.compile(r"(?P<base>.+)\.(?P<number>[0-9]{6,10})\Z")


class FileNameBad(InvalidError):
    """A name that no server gives to a binlog file."""

    code = "TG:ErrBinlogNameBad"


class FileName(NamedTuple):
    """Base and number; tuples of one base compare in the order in which files were written."""

    base: str
    number: int

    @classmethod
    def parse(cls, text: str) -> FileName:
        """Of a server's file name, without folders."""
        found = _NAME.match(text)
        if found is None:
            raise FileNameBad("is not the name of a binlog file", object=text)
        return cls(found["base"], int(found["number"]))

    def __str__(self) -> str:
        return f"{self.base}.{self.number:06d}"

    def next(self) -> FileName:
        """The file that follows."""
        return FileName(self.base, self.number + 1)
