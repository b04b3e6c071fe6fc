"""Report pages: what ran, where, how long and why, as one HTML file that needs no network.

Enters: launches of the processor (`Run`), profiles of the CPU, graphs. Leaves: a page. `subjects.py` says
what a page shows of one run; `processor.py`, `cpu.py` and `graphs.py` make it; `page.py` puts it into HTML;
the page's own script and style stand in `assets/`. Read `subjects.py` first. May import everything below.
"""

from __future__ import annotations

from trilobite.report.page import write_page
from trilobite.report.processor import launch_subject, processor_subject, write_run
from trilobite.report.subjects import Subject

__all__ = ["Subject", "launch_subject", "processor_subject", "write_page", "write_run"]
