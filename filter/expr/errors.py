"""What can be wrong with an expression, when it is read and when it meets a row."""

from __future__ import annotations

from cdc.base.errors import DefiniteError, InvalidError


class ExpressionParseFailed(InvalidError):
    """The text is not an expression."""

    code = "TG:ErrExpressionParseFailed"


class ExpressionColumnNotFound(DefiniteError):
    """The expression names a column that the table does not have, or no longer has."""

    code = "TG:ErrExpressionColumnNotFound"


class ExpressionNotSupported(DefiniteError):
    """The expression cannot be evaluated here exactly as its server would."""

    code = "TG:ErrExpressionNotSupported"


class ExpressionFailed(DefiniteError):
    """The expression has no value for a row, on the server neither."""

    code = "TG:ErrFailedToFilterDML"
