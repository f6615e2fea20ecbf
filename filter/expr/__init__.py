"""Value expressions: SQL conditions over rows, with the meaning that their server gives them."""

from filter.expr.rowfilter import RowFilter, compile_filter, keep_rows

__all__ = ["RowFilter", "compile_filter", "keep_rows"]
