"""`tb.utils.tensorboard`: `SummaryWriter` as PyTorch calls it, over `tb.logs`."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.framework.logs import Histogram, Image, TensorBoardLogger


class SummaryWriter:
    """Scalars, histograms and images for TensorBoard."""

    def __init__(self, log_dir: str | None = None, comment: str = "", **settings: Any) -> None:
        self.log_dir = log_dir or "runs"
        self._log = TensorBoardLogger(self.log_dir)

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None, **_: Any) -> None:
        self._log.log(global_step or 0, {tag: scalar_value})

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Any, global_step: int | None = None, **_: Any
    ) -> None:
        self._log.log(global_step or 0, {f"{main_tag}/{k}": v for k, v in tag_scalar_dict.items()})

    def add_histogram(self, tag: str, values: Any, global_step: int | None = None, **_: Any) -> None:
        self._log.log(global_step or 0, {tag: Histogram(np.asarray(values))})

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None, dataformats: str = "CHW", **_: Any
    ) -> None:
        image = np.asarray(img_tensor)
        order = [dataformats.index(c) for c in "HWC" if c in dataformats]
        self._log.log(global_step or 0, {tag: Image(image.transpose(order))})

    def flush(self) -> None:
        """Every line is written when it is logged."""

    def close(self) -> None:
        self._log.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
