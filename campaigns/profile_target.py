"""A program for profilers and checkers to watch: launches prepared kernels once each, in the order of a list, and ends.

``python -m campaigns.profile_target FOLDER LIST SEED``, where LIST holds indices into the folder's plan.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import KernelCall, Launch
from perfmodel.records.schema import RecordKind
from perfmodel.validation.kernel_job import prepare_call
from perfmodel.validation.launching import load_kernel, run_once, upload, upload_constants
from perfmodel.validation.prepared import PreparedFolder, PreparedKernel, unpacked_cubin

from .micro.suite import find_benchmark


def main(folder_path: Path, indices: list[int], seed: int) -> None:
    """Launch the kernels with these indices, each once."""
    folder = PreparedFolder(folder_path)
    plan = folder.kernels()
    for index in indices:
        kernel = plan[index]
        if kernel.resources is None:
            raise ValueError(f"kernel {index} of {folder_path} has no code")
        launch, call = launch_and_call(kernel, seed)
        cubin = unpacked_cubin(folder, kernel.resources.cubin_sha256)
        loaded = load_kernel(cubin, kernel.kernel_name, kernel.resources.dynamic_shared_bytes)
        upload_constants(loaded, call)
        run_once(loaded, launch, upload(call))


def launch_and_call(kernel: PreparedKernel, seed: int) -> tuple[Launch, KernelCall]:
    """Launch and arguments of a prepared configuration or micro-benchmark, with the inputs that the seed draws."""
    if kernel.kind is RecordKind.MICRO_BENCHMARK:
        benchmark = find_benchmark(load_gpu(kernel.gpu), kernel.name, kernel.configuration)
        return benchmark.launch, benchmark.make_call(np.random.default_rng(seed)).call
    prepared = prepare_call(kernel, seed)
    return prepared.launch, prepared.call


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(word) for word in sys.argv[2].split(",")], int(sys.argv[3]))
