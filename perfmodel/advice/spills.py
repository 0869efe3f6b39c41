"""Local memory: registers that the compiler has spilled, and arrays of a thread that it could not keep in registers."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.instruction import Space
from .changed_profiles import with_added, with_executions
from .subject import AdviceKind, Candidate, Subject, by_place


def spills(subject: Subject) -> Iterator[Candidate]:
    """A candidate without any access to local memory, where there are some."""
    counts = [one for one in subject.instructions if one.space is Space.LOCAL]
    if not counts:
        return
    profile, resources = subject.profile, subject.profile.resources
    requests = sum(one.requests for one in counts)
    stored = float(profile.counts.local_store_sectors)
    profile = with_added(
        profile,
        local_load_sectors=-float(profile.counts.local_load_sectors),
        local_store_sectors=-stored,
        l2_write_sectors=-stored,
        warp_instructions=-float(requests),
    )
    if resources.spill_store_bytes:
        finding = f"{resources.spill_store_bytes} bytes of registers per thread are spilled"
        change = "room for more registers (a weaker __launch_bounds__ or -maxrregcount, less work per thread)"
    else:
        finding = f"{resources.stack_bytes_per_thread} bytes of arrays per thread lie in local memory"
        change = "indices that the compiler knows (unrolled loops), so that the arrays stay in registers"
    yield Candidate(
        kind=AdviceKind.SPILLS,
        places=tuple(by_place(counts)),
        finding=finding,
        change=change,
        profile=with_executions(profile, {one.instruction: 0.0 for one in counts}),
    )
