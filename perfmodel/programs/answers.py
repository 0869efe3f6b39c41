"""The simulator's side of a running program: what it asks for, answered one request after the other."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from ..core.constants import MAX_BLOCKS_PER_CLUSTER
from ..errors import PerfmodelError
from ..gpus.gpu import Gpu
from ..launch.texture import decoded
from ..profiles.user_launch import Index3
from ..simulator.execution import waits_for_grid
from ..simulator.faults import FaultError, FaultKind
from ..simulator.printed_text import MAX_PRINTED_BYTES
from .launches import Launches, Shape
from .modules import Module, ProgramKernel
from .protocol import CudaError, Fields, Request, packed_text
from .shared_memory import ADDRESS, SharedMemory

_ERRORS = {
    FaultKind.OUT_OF_BOUNDS: CudaError.ILLEGAL_ADDRESS,
    FaultKind.MISALIGNED: CudaError.MISALIGNED_ADDRESS,
    FaultKind.TRAP: CudaError.LAUNCH_FAILURE,
    FaultKind.ASSERTION: CudaError.ASSERT,
    FaultKind.DEADLOCK: CudaError.LAUNCH_FAILURE,
}
_LARGEST_GRID = (2**31 - 1, 65_535, 65_535)
_LARGEST_BLOCK = (1024, 1024, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A launch that failed: the kernel's name and why, in one line."""

    kernel: str
    reason: str

    @property
    def text(self) -> str:
        """One line for people."""
        return f"kernel {self.kernel}: {self.reason}"


class Simulator:
    """Answers a program's requests.

    Args:
        gpu: the device that the program sees.
        memory: its memory.
        launches: executes and predicts.
        report: called with each line that the user should see at once.
        started: called with each kernel and the number of its launch before it is executed.
    """

    def __init__(
        self,
        gpu: Gpu,
        memory: SharedMemory,
        launches: Launches,
        report: Callable[[str], None],
        started: Callable[[str, int], None],
    ) -> None:
        self.gpu, self.memory, self.launches, self.report, self.started = gpu, memory, launches, report, started
        self.failures: list[Failure] = []
        self.missing: list[str] = []
        self._modules: list[Module] = []
        self._kernels: list[ProgramKernel] = []
        self._calls = 0
        self._answers: dict[Request, Callable[[Fields], bytes | None]] = {
            Request.DEVICE: self._device,
            Request.LOAD: self._load,
            Request.PLACE: self._place,
            Request.KERNEL: self._kernel,
            Request.LAUNCH: self._launch,
            Request.OCCUPANCY: self._occupancy,
            Request.ALLOCATED: self._allocated,
            Request.FREED: self._freed,
            Request.MISSING: self._missing,
            Request.OBJECT: self._object,
        }

    def answer(self, request: Request, fields: Fields) -> bytes | None:
        """The answer's fields; None where the program waits for none."""
        return self._answers[request](fields)

    def _device(self, fields: Fields) -> bytes:
        gpu = self.gpu
        major, minor = gpu.architecture.compute_capability
        facts = {
            "name": gpu.name if gpu.name.startswith("NVIDIA") else f"NVIDIA {gpu.name}",
            "memory_address": ADDRESS,
            "memory_bytes": self.memory.size_bytes,
            "major": major,
            "minor": minor,
            "sm_count": gpu.sm_count,
            "clock_khz": round(gpu.boost_clock_hz / 1e3),
            "single_to_double_ratio": gpu.fp32_lanes_per_sm // gpu.fp64_lanes_per_sm,
            "l2_bytes": gpu.l2_bytes,
            "max_threads_per_block": gpu.max_threads_per_block,
            "max_warps_per_sm": gpu.max_warps_per_sm,
            "max_blocks_per_sm": gpu.max_blocks_per_sm,
            "registers_per_block": gpu.registers_per_block,
            "registers_per_sm": gpu.registers_per_sm,
            "shared_bytes_per_block": gpu.shared_bytes_per_block,
            "shared_bytes_per_block_opt_in": gpu.shared_bytes_per_block_opt_in,
            "shared_bytes_per_sm": gpu.shared_bytes_per_sm,
            "shared_reserved_bytes_per_block": gpu.shared_reserved_bytes_per_block,
        }
        return packed_text("".join(f"{name}={value}\n" for name, value in facts.items()))

    def _load(self, fields: Fields) -> bytes:
        self._modules.append(Module(fields.rest(), self.gpu))
        return struct.pack("<IQ", len(self._modules) - 1, self._modules[-1].size_bytes)

    def _place(self, fields: Fields) -> bytes:
        number, address = fields.take("IQ")
        places = self._modules[number].place(address, self.memory.at)
        return struct.pack("<I", len(places)) + b"".join(
            packed_text(name) + struct.pack("<QQ", start, size) for name, start, size in places
        )

    def _kernel(self, fields: Fields) -> bytes:
        (number,) = fields.take("I")
        kernel = self._modules[number].kernel(fields.text(), len(self._kernels))
        self._kernels.append(kernel)
        resources, parameters = kernel.compiled.resources, kernel.parameters
        registers = int(resources.registers_per_thread)
        threads = self.gpu.max_threads_per_block
        while threads > 32 and not self.launches.fitting_blocks(kernel, threads, 0):
            threads -= 32
        version = int(kernel.compiled.architecture.removeprefix("sm_").rstrip("af"))
        return struct.pack(
            "<IiiiiQQQI",
            kernel.number,
            registers,
            threads,
            version,
            version,
            int(resources.static_shared_bytes),
            0,
            int(resources.stack_bytes_per_thread),
            len(parameters),
        ) + b"".join(struct.pack("<II", one.offset, one.size_bytes) for one in parameters)

    def _occupancy(self, fields: Fields) -> bytes:
        number, threads, shared_bytes = fields.take("IIQ")
        return struct.pack("<i", self.launches.fitting_blocks(self._kernels[number], threads, shared_bytes))

    def _launch(self, fields: Fields) -> bytes:
        numbers = fields.take("10IQII")
        kernel = self._kernels[numbers[0]]
        given: Index3 = numbers[7:10]
        shape = Shape(
            grid=numbers[1:4],
            block=numbers[4:7],
            cluster=given if given != (1, 1, 1) else kernel.declared_cluster,
            shared_bytes=numbers[10],
            cooperative=bool(numbers[11]),
        )
        error = self._refused(kernel, shape, numbers[12])
        if error is not None:
            return self._launched(error, lost=False)
        self._calls += 1
        self.started(kernel.name, self._calls)
        try:
            seconds = self.launches.run(kernel, shape, fields.rest())
        except FaultError as fault:
            self._failed(kernel, f"{fault}{self._remedy(kernel, shape, fault)}")
            return self._launched(_ERRORS[fault.fault.kind], lost=True)
        except PerfmodelError as reason:
            if not self.launches.is_late:  # the run ends anyhow, and says so
                self._failed(kernel, str(reason))
            return self._launched(CudaError.NOT_SUPPORTED, lost=False)
        return self._launched(CudaError.SUCCESS, lost=False, seconds=seconds)

    def _launched(self, error: CudaError, *, lost: bool, seconds: float = 0.0) -> bytes:
        """The answer to a launch, with what it has printed."""
        printed = self.launches.printed
        if printed.dropped:
            self.report(
                f"a launch prints more than {MAX_PRINTED_BYTES // 2**20} MiB, as much as the hardware keeps: "
                f"{printed.dropped:,} calls of printf are not shown"
            )
            printed.dropped = 0
        return struct.pack("<iId", error, lost, seconds) + printed.taken()

    @staticmethod
    def _remedy(kernel: ProgramKernel, shape: Shape, fault: FaultError) -> str:
        """What to do about a trap of a kernel that synchronises its grid without being launched so."""
        if fault.fault.kind is not FaultKind.TRAP or shape.cooperative or not waits_for_grid(kernel.code):
            return ""
        return "; a kernel that calls grid.sync() is launched by cudaLaunchCooperativeKernel"

    def _refused(self, kernel: ProgramKernel, shape: Shape, opted_in_bytes: int) -> CudaError | None:
        """The error of a launch that no hardware would take."""
        pairs = (*zip(shape.grid, _LARGEST_GRID, strict=True), *zip(shape.block, _LARGEST_BLOCK, strict=True))
        threads = shape.block[0] * shape.block[1] * shape.block[2]
        if any(not 1 <= size <= limit for size, limit in pairs) or threads > self.gpu.max_threads_per_block:
            return CudaError.INVALID_CONFIGURATION
        blocks = shape.cluster[0] * shape.cluster[1] * shape.cluster[2]
        divides = all(size and not extent % size for extent, size in zip(shape.grid, shape.cluster, strict=True))
        if not divides or blocks > (MAX_BLOCKS_PER_CLUSTER if self.gpu.architecture.has_clusters else 1):
            return CudaError.INVALID_CLUSTER_SIZE
        static = int(kernel.compiled.resources.static_shared_bytes)
        usual = self.gpu.shared_bytes_per_block - static
        if shape.shared_bytes > max(usual, opted_in_bytes):
            return CudaError.INVALID_VALUE
        if not self.launches.fitting_blocks(kernel, threads, shape.shared_bytes):
            return CudaError.LAUNCH_OUT_OF_RESOURCES
        resident = self.gpu.sm_count * self.launches.fitting_blocks(kernel, threads, shape.shared_bytes)
        if shape.cooperative and shape.grid[0] * shape.grid[1] * shape.grid[2] > resident:
            return CudaError.COOPERATIVE_LAUNCH_TOO_LARGE
        return None

    def _failed(self, kernel: ProgramKernel, reason: str) -> None:
        failure = Failure(kernel=kernel.name, reason=reason)
        if failure not in self.failures:
            self.failures.append(failure)
            self.report(failure.text)

    def _allocated(self, fields: Fields) -> None:
        self.memory.allocated(*fields.take("QQI"))

    def _freed(self, fields: Fields) -> None:
        self.memory.freed(*fields.take("Q"))

    def _object(self, fields: Fields) -> None:
        (number,) = fields.take("Q")
        self.memory.textures[number] = decoded(fields.rest())

    def _missing(self, fields: Fields) -> None:
        function = fields.text()
        self.missing.append(function)
        self.report(
            f"the program calls {function}, which the stand-in runtime does not have; it gets cudaErrorNotSupported "
            "(single kernels of the program are answered by `perfmodel analyze`)"
        )
