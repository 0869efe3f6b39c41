"""Channels per thread that the model picks for each published shape of conv1d, beside the author's choice.

Takes a GPU's id and a fidelity: ``python examples/conv1d_shapes.py rtx-3090 compiled``; the default needs no compiler.
"""

import sys

import pandas as pd

import perfmodel as pm
from perfmodel.families.conv1d.published import PUBLISHED_SHAPES, published_choice

gpu = sys.argv[1] if len(sys.argv) > 1 else "rtx-3090"
fidelity = sys.argv[2] if len(sys.argv) > 2 else "analytic"
rows = []
for in_channels, out_channels, length in PUBLISHED_SHAPES:
    problem = pm.Conv1d(in_channels=in_channels, out_channels=out_channels, length=length)
    ranking = pm.rank(problem, gpu=gpu, fidelity=fidelity, top=100)
    times = {entry.configuration.channels_per_thread: entry.time.predicted_s for entry in ranking.top}
    picked, authors = ranking.best.configuration.channels_per_thread, published_choice(problem)
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
