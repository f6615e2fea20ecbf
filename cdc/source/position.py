"""Where pulling goes on upstream: GTIDs where the server has them, file and offset always."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from cdc.base.position import TransactionName
from cdc.binlog.gtid_set import GtidSet, MariadbGtidPosition
from cdc.source.gtids import gtid_text


@dataclass(frozen=True, slots=True)
class UpstreamPosition:
    """``gtid`` is a GTID set (MySQL) or position (MariaDB); ``None``: file and offset count.

    ``pos`` is the offset of the next event in ``file``, 64 bits. ``created`` and ``written_by`` are
    the header time and the server_id of that file's FORMAT_DESCRIPTION (0: not known): they tell
    files of one name apart.
    """

    file: str = ""
    pos: int = 4
    gtid: str | None = None
    created: int = 0
    written_by: int = 0

    def to_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> UpstreamPosition:
        """Inverse of ``to_dict``; missing fields take their defaults."""
        names = cls.__dataclass_fields__
        return cls(**{k: v for k, v in value.items() if k in names})

    def covers(self, other: UpstreamPosition, server_kind: str) -> bool:
        """Whether everything before ``other`` lies before this."""
        if self.gtid is not None and other.gtid is not None:
            if server_kind == "mariadb":
                mine = MariadbGtidPosition.parse(self.gtid)
                theirs = MariadbGtidPosition.parse(other.gtid)
                return all(mine.reached(g) for g in theirs.domains.values())
            return GtidSet.parse(self.gtid).contains(GtidSet.parse(other.gtid))
        mine_at = (file_number(self.file), self.pos)
        return mine_at >= (file_number(other.file), other.pos)

    def passed(self, name: TransactionName, server_kind: str) -> bool:
        """Whether a transaction lies before this."""
        if name.source:
            return self.covers(UpstreamPosition(gtid=gtid_text(server_kind, name)), server_kind)
        # It begins at its number.
        return self.covers(UpstreamPosition(f".{name.file}", name.sequence + 1), server_kind)

    def in_other_file(self, created: int, written_by: int) -> bool:
        """Whether a file of this name, with such a FORMAT_DESCRIPTION, is another one.

        Servers that were set up together have files of one name and second; who wrote them differs.
        """
        known = self.written_by and written_by
        return created != self.created or bool(known and written_by != self.written_by)

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}" + (f" gtid {self.gtid}" if self.gtid else "")


def file_number(name: str) -> int:
    """``123456`` of ``bin.123456``; -1 if it has no number."""
    suffix = name.rpartition(".")[2]
    return int(suffix) if suffix.isascii() and suffix.isdigit() else -1
