"""Logs: numbers by name and step, as CSV, as JSON lines, and as TensorBoard's event files.

All share one protocol, `Logger.log(step, {name: value})` and `close()`; each call is complete in the file
when it returns.

Enters: a step and numbers by name. Leaves: files. May import `base` alone. Read `logger.py` first.
"""

from trilobite.framework.logs.csv_log import CSVLogger, read_csv
from trilobite.framework.logs.events import Histogram, Image
from trilobite.framework.logs.jsonl_log import JSONLLogger, read_jsonl
from trilobite.framework.logs.logger import Logger
from trilobite.framework.logs.tensorboard import TensorBoardLogger

__all__ = [
    "Logger", "CSVLogger", "JSONLLogger", "TensorBoardLogger", "Histogram", "Image", "read_csv", "read_jsonl",
]  # fmt: skip
