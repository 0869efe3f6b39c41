"""A program for profilers and checkers to watch: launches prepared kernels once each, in the order of a list, and ends.

``python -m perfmodel.validation.profile_target FOLDER LIST SEED``, where LIST holds indices into the folder's plan.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .kernel_job import prepare_call
from .launching import load_kernel, run_once, upload, upload_constants
from .prepared import PreparedFolder, unpacked_cubin


def main(folder_path: Path, indices: list[int], seed: int) -> None:
    """Launch the kernels with these indices, each once."""
    folder = PreparedFolder(folder_path)
    plan = folder.kernels()
    for index in indices:
        kernel = plan[index]
        if kernel.resources is None:
            raise ValueError(f"kernel {index} of {folder_path} has no code")
        prepared = prepare_call(kernel, seed)
        cubin = unpacked_cubin(folder, kernel.resources.cubin_sha256)
        loaded = load_kernel(cubin, kernel.kernel_name, kernel.resources.dynamic_shared_bytes)
        upload_constants(loaded, prepared.call)
        run_once(loaded, prepared.launch, upload(prepared.call))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(word) for word in sys.argv[2].split(",")], int(sys.argv[3]))
