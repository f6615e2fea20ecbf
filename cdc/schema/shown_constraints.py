"""What MariaDB prints of foreign keys, made SQL again.

Before 11.8 its SHOW CREATE TABLE leaves backticks in the names of a constraint, of its columns and
of those that it refers to as they are, so that the text cannot be read, by the server neither. A
constraint has the name of its table where nobody has given it one, so this concerns tables, too.
"""

from __future__ import annotations

import re

_FOREIGN = re.compile(
    r"^(  CONSTRAINT `)(.*)(` FOREIGN KEY \(`)(.*)(`\) REFERENCES .* \(`)(.*)(`\)[^`]*)$",
    re.MULTILINE,
)
_LONE = re.compile(r"(?<!`)(?:``)*`(?!`)")


def mended(text: str) -> str:
    r"""A CREATE TABLE that a server has printed, with all names quoted as they must be.

    A name of which all backticks are doubled is taken to be right.

    >>> mended("\n  CONSTRAINT `a`b` FOREIGN KEY (`c`, `d`e`) REFERENCES `t` (`x`, `y`)\n)")[1:-2]
    '  CONSTRAINT `a``b` FOREIGN KEY (`c`, `d``e`) REFERENCES `t` (`x`, `y`)'
    """
    return _FOREIGN.sub(_quoted, text) if " FOREIGN KEY (`" in text else text


def _quoted(line: re.Match[str]) -> str:
    begin, name, then, columns, refers, referred, rest = line.groups()
    return f"{begin}{_name(name)}{then}{_names(columns)}{refers}{_names(referred)}{rest}"


def _names(listed: str) -> str:
    return "`, `".join(_name(name) for name in listed.split("`, `"))


def _name(name: str) -> str:
    return name.replace("`", "``") if _LONE.search(name) else name
