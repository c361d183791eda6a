"""Importing this fills case.ROWS."""

import rows_control
import rows_empty
import rows_graph
import rows_norm
import rows_number
import rows_recurrent
import rows_shape
import rows_window

__all__ = [
    "rows_control",
    "rows_empty",
    "rows_graph",
    "rows_norm",
    "rows_number",
    "rows_recurrent",
    "rows_shape",
    "rows_window",
]
