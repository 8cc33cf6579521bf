"""SummaryWriter: PyTorch's methods; the event files are written by tensorboardX, an optional dependency.

Tensors go in and are handed on as arrays. Read next: utils/tensorboard/graph.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error


def library() -> Any:
    """tensorboardX, or a sentence about how to get it."""
    try:
        import tensorboardX
    except ImportError:
        rule = "event files are written by tensorboardX, which is not installed"
        fix = "pip install tensorboardX pillow, or pip install cleargrad[tensorboard]"
        raise error(ImportError, "SummaryWriter", rule, fix=fix) from None
    return tensorboardX


def plain(value: Any) -> Any:
    """A value without tensors: they become arrays, also inside lists and dictionaries."""
    if isinstance(value, Tensor):
        data = value.detach().cpu()._data
        return data.astype(np.float32) if data.dtype.kind == "V" else data
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(part) for part in value)
    return value


def number(value: Any) -> Any:
    """A value of one element as a Python number."""
    value = plain(value)
    return value.item() if isinstance(value, np.ndarray) else value


def handed_on(name: str) -> Callable:
    """A method with the same arguments as tensorboardX's, given without tensors."""

    def method(self: SummaryWriter, *args: Any, **kwargs: Any) -> None:
        getattr(self._writer, name)(*plain(args), **plain(kwargs))

    method.__name__ = name
    return method


class SummaryWriter:
    """Writes event files to a folder, by default one under runs/ named after the time and the machine."""

    def __init__(
        self,
        log_dir: str | os.PathLike | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ):
        folder = None if log_dir is None or log_dir == "" else os.fspath(log_dir)
        self._writer = library().SummaryWriter(
            logdir=folder,
            comment=comment,
            purge_step=purge_step,
            max_queue=max_queue,
            flush_secs=flush_secs,
            filename_suffix=filename_suffix,
        )
        self.log_dir = self._writer.logdir
        self._curves: dict[str, Any] = {}  # a writer for each curve of add_scalars, by its folder

    def get_logdir(self) -> str:
        """The folder of the event files."""
        return self.log_dir

    @property
    def file_writer(self) -> Any:
        return self._writer.file_writer

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """A point of a curve."""
        self._writer.add_scalar(tag, number(scalar_value), number(global_step), walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Points of several curves that are drawn together."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            if folder not in self._curves:
                self._curves[folder] = library().SummaryWriter(logdir=folder)
            self._curves[folder].add_scalar(main_tag, number(value), number(global_step), walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """The settings of a run and what came of them."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        settings = {name: number(value) for name, value in hparam_dict.items()}
        metrics = {name: number(value) for name, value in metric_dict.items()}
        self._writer.add_hparams(settings, metrics, run_name, global_step)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: str = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How values are distributed."""
        self._writer.add_histogram(tag, plain(values), number(global_step), bins, walltime, max_bins)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib, or several, as an image."""
        self._writer.add_figure(tag, figure, global_step, close, walltime)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """The ops that a model runs, grouped by module."""
        from cleargrad.utils.tensorboard.graph import graph_event

        library()
        self.file_writer.add_event(graph_event(model, input_to_model))

    add_image = handed_on("add_image")
    add_images = handed_on("add_images")
    add_image_with_boxes = handed_on("add_image_with_boxes")
    add_histogram_raw = handed_on("add_histogram_raw")
    add_video = handed_on("add_video")
    add_audio = handed_on("add_audio")
    add_text = handed_on("add_text")
    add_embedding = handed_on("add_embedding")
    add_pr_curve = handed_on("add_pr_curve")
    add_pr_curve_raw = handed_on("add_pr_curve_raw")
    add_mesh = handed_on("add_mesh")
    add_custom_scalars = handed_on("add_custom_scalars")
    add_custom_scalars_multilinechart = handed_on("add_custom_scalars_multilinechart")
    add_custom_scalars_marginchart = handed_on("add_custom_scalars_marginchart")

    def flush(self) -> None:
        """Writes what is waiting."""
        for writer in (self._writer, *self._curves.values()):
            writer.flush()

    def close(self) -> None:
        for writer in (self._writer, *self._curves.values()):
            writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
