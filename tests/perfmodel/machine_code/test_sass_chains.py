"""Dependence chains of kernels that state how many accumulators they have."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.machine_code.chains import chain_lengths, independent_chains
from perfmodel.machine_code.code_profile import profile_of

SOURCE = """
extern "C" __global__ void accumulate(const float *a, float *out)
{
    float sum[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        sum[c] = a[c];
    const float factor = a[threadIdx.x];
#pragma unroll
    for (int i = 0; i < 30; i++)
#pragma unroll
        for (int c = 0; c < CHAINS; c++)
            sum[c] = sum[c] * factor + 2.5f;
    for (int c = 0; c < CHAINS; c++)
        out[c * 32 + threadIdx.x] = sum[c];
}
"""


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ["sm_70", "sm_75", "sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("chains", [1, 3, 8])
def test_accumulators_are_independent_chains(architecture: str, chains: int) -> None:
    request = CompileRequest(
        source=SOURCE, kernel="accumulate", file_name="accumulate.cu", defines=(("CHAINS", chains),)
    )
    profile = profile_of(compile_kernel(request, architecture))
    assert profile.flow is not None
    assert profile.count("fp32_fma") == 30 * chains
    assert chain_lengths(profile).max() == 30
    assert independent_chains(profile, profile.flow.reachable.astype(np.float64)) == chains


@pytest.mark.compiler
def test_code_that_is_not_decoded_or_not_executed_counts_as_one_chain() -> None:
    request = CompileRequest(source=SOURCE, kernel="accumulate", file_name="accumulate.cu", defines=(("CHAINS", 4),))
    pascal, volta = (profile_of(compile_kernel(request, architecture)) for architecture in ("sm_61", "sm_70"))
    assert len(chain_lengths(pascal)) == 0
    assert independent_chains(pascal, np.ones(1)) == 1.0
    assert volta.flow is not None
    assert independent_chains(volta, np.zeros(len(volta.flow))) == 1.0
