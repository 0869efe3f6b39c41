"""Profiles of executed launches kept in the disk cache, so that a ranking that was interrupted goes on where it stopped."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..compiler import disk_cache
from ..compiler.compiled import content_key
from ..compiler.request import CompileRequest
from ..compiler.resources import Resources
from ..core.counts import Counts
from ..gpus.gpu import Gpu
from ..launch.launch import Launch
from .kernel_profile import KernelProfile
from .warp_traces import WarpTraces


@functools.cache
def counting_version() -> str:
    """Hash of the code that counts and its fitted shares, so that profiles by an older simulator are never taken."""
    digest = hashlib.sha256()
    root = Path(str(files("perfmodel")))
    for name in ("caches", "warp_latencies"):
        digest.update((root / "data" / "calibrations" / f"{name}.toml").read_bytes())
    for folder in ("sources", "compiler", "machine_code", "ptx", "simulator", "memory", "profiles"):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def profile_key(request: CompileRequest, gpu: Gpu, launch: tuple[Any, ...]) -> str:
    """Key of one launch: code, GPU, launch and arguments, the code that counts."""
    parts = [content_key(request, gpu.architecture.name), repr(gpu), repr(launch), counting_version()]
    return "profile-" + hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def fetch_profile(key: str) -> KernelProfile | None:
    """The profile kept under a key, None where there is none that can be read."""
    stored = disk_cache.fetch(key)
    if stored is None:
        return None
    try:
        text, _, traces = stored.partition(b"\n")
        values = json.loads(text) | {"traces": WarpTraces.from_bytes(traces) if traces else None}
        parts = {"launch": Launch, "resources": Resources, "counts": Counts}
        return KernelProfile(**values | {name: kind(**values[name]) for name, kind in parts.items()})
    except (ValueError, TypeError, KeyError):
        return None


def keep_profile(key: str, profile: KernelProfile) -> None:
    """Keep the profile of a single launch under a key."""
    traces = b"" if profile.traces is None else profile.traces.to_bytes()
    text = json.dumps(asdict(replace(profile, traces=None)), default=lambda value: value.item())
    disk_cache.keep(key, text.encode() + b"\n" + traces)
