"""Errors that a user caused and can mend; the command line turns each into one line and exit status 2."""

INTERRUPTED_STATUS = 130
"""Exit status of an interrupted program: 128 and the number of the signal."""
INTERRUPTED = "perfmodel: interrupted"
"""What it says then."""
INTERRUPTED_AND_KEPT = f"{INTERRUPTED}; what was finished is kept"
"""What it says where a later run of the command goes on from there."""


class PerfmodelError(Exception):
    """Base of everything this package raises on purpose; its text is one line that names the offending value."""


class InputError(PerfmodelError, ValueError):
    """A value that the user gave is wrong; the text names it and what would be accepted."""


class InfeasibleError(PerfmodelError):
    """A single configuration was asked about that cannot run on the GPU; the text names the limit."""


class CompilerMissingError(PerfmodelError):
    """The CUDA compiler wheels are not installed; the text names the extra that brings them."""


class CompileError(PerfmodelError):
    """The CUDA source does not compile; the text is the compiler's own message."""


class SimulationError(PerfmodelError):
    """The simulator met an instruction, an access or a budget that it must refuse; the text names instruction and line."""
