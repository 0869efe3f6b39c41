"""What the harness would launch, executed on the CPU: the prepared configuration gives the family's reference."""

from pathlib import Path

import numpy as np
import pytest

from campaigns.random_checks import random_check
from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.registry import family
from perfmodel.machine_code.program import read_machine_code
from perfmodel.prediction.scenario import scenario_of
from perfmodel.records.columns import record_of_fields
from perfmodel.simulator.sass.simulation import simulate_machine_code
from perfmodel.validation.kernel_job import compare_outputs, prepare_call, problem_reference
from perfmodel.validation.prepared import PreparedFolder
from perfmodel.validation.preparing import prepare_choices

UNDER = scenario_of("h200")
SEED = 5


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["conv1d", "direct_conv2d", "pointwise_conv2d", "tiled_conv2d"])
def test_prepared_configuration_gives_the_reference(name: str, tmp_path: Path) -> None:
    folder = PreparedFolder(tmp_path)
    folder.write_plan(prepare_choices([random_check(name, UNDER, np.random.default_rng(2))], UNDER, folder))
    (kernel,) = folder.kernels()
    assert kernel.failure is None
    chosen, prepared = family(name), prepare_call(kernel, SEED)
    configuration = record_of_fields(chosen.configuration_type, kernel.configuration)
    compiled = compile_kernel(chosen.compile_request(prepared.problem, configuration, UNDER.gpu), "sm_90")
    assert kernel.resources is not None
    assert folder.cubin(kernel.resources.cubin_sha256) == compiled.cubin
    outputs = simulate_machine_code(read_machine_code(compiled), prepared.launch, prepared.call).outputs
    check = compare_outputs(
        outputs, problem_reference(name, prepared.problem, SEED), chosen.tolerance(prepared.problem)
    )
    assert check.passed
