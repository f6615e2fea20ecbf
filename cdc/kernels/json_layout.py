"""Columns of matrices that several formats of JSON have: parts of a key, members of a type.

``keys`` has a row for each part of a key, in key order, and ``members`` one for each member of an
ENUM or SET. Their texts lie in the format's ``blob``. Both are C-contiguous int64.
"""

from __future__ import annotations

from typing import Final

K_COLUMN: Final = 0  # ordinal in the table
K_NAME: Final = 1  # blob offset of ``"name":``, with a comma before it from the second part on
K_NAME_LENGTH: Final = 2
K_SIZE: Final = 3

M_TEXT: Final = 0  # blob offset of the member as it stands inside of a JSON string
M_LENGTH: Final = 1
M_SIZE: Final = 2
