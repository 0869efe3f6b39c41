"""A library's operation on the device: PyTorch's settings made, tensors uploaded, runs captured as CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..timing import Graph
from .interface import Baseline, BaselineUnavailableError, Inputs, Precision, Settings, library

WARM_UP_RUNS = 3


@dataclass(frozen=True, slots=True)
class LibraryWork:
    """All that a library launches for one result."""

    torch: Any
    function: Callable[..., tuple[Any, ...]]
    tensors: tuple[Any, ...]
    outputs: tuple[str, ...]
    buffer_bytes: int

    @classmethod
    def start(cls, baseline: Baseline, problem: Any, inputs: Inputs) -> LibraryWork:
        """Upload the inputs and run a few times, so that algorithms are chosen and code is compiled.

        Raises:
            BaselineUnavailableError: A library is not installed, or does not offer the operation for this problem.
        """
        torch = library("torch")
        if not torch.cuda.is_available():
            raise BaselineUnavailableError("torch is installed without CUDA")
        apply_settings(torch, baseline.settings)
        operation = baseline.describe(torch, problem, inputs)
        function = operation.function
        if baseline.settings.compiled:
            torch._dynamo.reset()  # of one function Dynamo keeps eight shapes, and then stops to compile
            function = torch.compile(function, fullgraph=True, dynamic=False)
        tensors = tuple(tensor.cuda() for tensor in operation.tensors)
        with torch.no_grad():
            for _ in range(WARM_UP_RUNS):
                found = function(*tensors)
        size = sum(tensor.nbytes for tensor in (*tensors, *found))
        return cls(torch, function, tensors, operation.outputs, size)

    def results(self) -> Mapping[str, NDArray[np.floating[Any]]]:
        """The outputs of one run, by the names of the family's reference."""
        with self.torch.no_grad():
            found = self.function(*self.tensors)
        return {name: tensor.cpu().numpy() for name, tensor in zip(self.outputs, found, strict=True)}

    def capture(self, runs: int, *, apart: bool) -> Graph:
        """A graph of runs, on the same tensors or each on copies; where apart, each has outputs of its own, too."""
        torch = self.torch
        copies = [tuple(tensor.clone() for tensor in self.tensors) for _ in range(runs - 1)] if apart else []
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        kept = []
        with torch.no_grad(), torch.cuda.stream(stream):
            self.function(*self.tensors)  # what libraries set up for each stream
            stream.synchronize()
            graph.capture_begin(capture_error_mode="thread_local")
            for tensors in (self.tensors, *(copies or [self.tensors] * (runs - 1))):
                found = self.function(*tensors)
                kept += [found] if apart else []
            graph.capture_end()
        stream.synchronize()
        return Graph(_Held(graph, (copies, kept)).replay, runs)


@dataclass(frozen=True, slots=True)
class _Held:
    """A graph with the tensors that it works on, which live as long as it does."""

    graph: Any
    tensors: Any

    def replay(self) -> None:
        """Put the graph into the current stream."""
        self.graph.replay()


def apply_settings(torch: Any, settings: Settings) -> None:
    """Make PyTorch's settings those of a baseline; they are the process's."""
    tensor_cores = settings.precision is Precision.TF32
    torch.backends.cudnn.enabled = settings.cudnn
    torch.backends.cudnn.benchmark = settings.benchmark
    torch.backends.cudnn.benchmark_limit = 0
    torch.backends.cudnn.allow_tf32 = tensor_cores
    torch.backends.cuda.matmul.allow_tf32 = tensor_cores
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.preferred_blas_library(settings.blas)
