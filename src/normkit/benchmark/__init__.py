"""What is timed, against whom, and how many bytes each op has to move."""

from normkit.benchmark.accuracy import ErrorRow
from normkit.benchmark.entries import OPS
from normkit.benchmark.entry import BenchOp, moved_bytes
from normkit.benchmark.importing import time_import
from normkit.benchmark.model_share import ModelReport, time_model
from normkit.benchmark.options import Cell, Words, cells
from normkit.benchmark.peers import PEERS
from normkit.benchmark.report import Report, TimeRow, read, write
from normkit.benchmark.run import run
from normkit.benchmark.targets import TARGETS, Target, target_cells

__all__ = [
    "OPS",
    "PEERS",
    "TARGETS",
    "BenchOp",
    "Cell",
    "ErrorRow",
    "ModelReport",
    "Report",
    "Target",
    "TimeRow",
    "Words",
    "cells",
    "moved_bytes",
    "read",
    "run",
    "target_cells",
    "time_import",
    "time_model",
    "write",
]
