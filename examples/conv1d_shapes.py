"""Channels per thread that the model picks for each published shape of conv1d, beside the author's choice.

Takes a GPU's id and a fidelity: ``python examples/conv1d_shapes.py rtx-3090 compiled``; the default needs no compiler.
"""

import sys

import pandas as pd

import perfmodel as pm
from perfmodel.families.conv1d import Variant
from perfmodel.families.conv1d.configuration import channels_per_thread_choices

AUTHORS = {
    (256, 256, 8): 2,
    (256, 256, 16): 2,
    (256, 512, 8): 2,
    (512, 512, 4): 8,
    (512, 512, 8): 4,
    (512, 1024, 4): 8,
    (1024, 256, 8): 4,
    (1024, 1024, 4): 4,
    (2048, 512, 4): 4,
}
"""Channels per thread that the kernel's author chose for input channels, output channels and length."""

gpu = sys.argv[1] if len(sys.argv) > 1 else "rtx-3090"
fidelity = sys.argv[2] if len(sys.argv) > 2 else "analytic"
rows = []
for (in_channels, out_channels, length), authors in AUTHORS.items():
    problem = pm.Conv1d(in_channels=in_channels, out_channels=out_channels, length=length)
    choices = channels_per_thread_choices(problem)
    configurations = [pm.Conv1dConfiguration(channels_per_thread=choice) for choice in choices]
    naive = pm.Conv1dConfiguration(variant=Variant.NAIVE, channels_per_thread=None)
    times = {
        configuration.channels_per_thread: pm.predict(
            problem, configuration, gpu=gpu, fidelity=fidelity
        ).time.predicted_s
        for configuration in (naive, *configurations)
    }
    picked = min(choices, key=times.__getitem__)
    rows.append(
        {
            "C": in_channels,
            "K": out_channels,
            "L": length,
            "model's": picked,
            "µs": times[picked] * 1e6,
            "author's": authors,
            "its µs": times[authors] * 1e6,
            "naive µs": times[None] * 1e6,
        }
    )
print(pd.DataFrame(rows).to_string(index=False, float_format="%.2f"))
