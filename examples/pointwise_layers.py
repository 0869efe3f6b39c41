"""Each pointwise layer of a network: how many of the source's 144 tuples can run, and what three rules choose among them.

Takes a GPU's id, a network, and ``compiled`` where the compiler's registers are wanted too:
``python examples/pointwise_layers.py h200 mobilenet_v2 compiled``; the default needs no compiler.
"""

import sys

import numpy as np
import pandas as pd

from perfmodel.compiler.pool import compile_many
from perfmodel.families.pointwise_conv2d import FAMILY, PointwiseConv2d
from perfmodel.families.pointwise_conv2d.report import layer_report
from perfmodel.families.pointwise_conv2d.spaces import source_tuples
from perfmodel.networks.library import load_network
from perfmodel.prediction.predicting import evaluate_scenario
from perfmodel.prediction.prediction import plain
from perfmodel.prediction.scenario import scenario_of

gpu_id, network, fidelity = [*sys.argv[1:], *("rtx-2080-ti", "mobilenet_v1", "analytic")[len(sys.argv) - 1 :]]
scenario, tuples = scenario_of(gpu_id), source_tuples()
problems = dict.fromkeys(
    layer.problem for layer in load_network(network).layers if isinstance(layer.problem, PointwiseConv2d)
)
layers, chosen, choices = [], [], []
for problem in problems:
    seconds = evaluate_scenario(FAMILY, problem, tuples, scenario).seconds
    report = layer_report(problem, tuples, scenario.gpu, predicted_s=np.where(np.isinf(seconds), np.nan, seconds))
    name = f"{problem.in_channels} to {problem.out_channels} at {problem.height}x{problem.width}"
    layers.append(
        {
            "layer": name,
            "whole-number": sum(entry.source_feasible for entry in report.tuples),
            "rounded": report.feasible,
            "rejected": ", ".join(f"{count} {reason}" for reason, count in report.rejected.items()),
        }
    )
    for rule, index in report.chosen.items():
        if index is None:
            continue
        entry = report.tuples[index]
        chosen.append((problem, entry.configuration))
        choices.append(
            {
                "layer": name,
                "rule": rule.value,
                "tuple": " ".join(str(value) for value in plain(entry.configuration).values()),
                "M_A": entry.intensity,
                "M_B": entry.blocks,
                "planned": entry.planned_registers,
                "estimated": entry.estimated_registers,
                "blocks/SM": entry.blocks_per_sm,
                "occupancy": entry.occupancy,
                "waves": entry.waves,
                "tail": entry.tail,
                "µs": (entry.predicted_s or np.nan) * 1e6,
            }
        )
shown = pd.DataFrame(choices)
if fidelity == "compiled":
    requests = [FAMILY.compile_request(problem, configuration, scenario.gpu) for problem, configuration in chosen]
    kernels = compile_many([(request, scenario.gpu.architecture) for request in requests])
    shown["compiled"] = [
        getattr(getattr(kernel, "resources", None), "registers_per_thread", None) for kernel in kernels
    ]
print(f"{network} on {scenario.gpu.id}: tuples of {len(tuples)} that can run")
print(pd.DataFrame(layers).to_string(index=False))
print(shown.to_string(index=False, float_format="%.2f"))
