"""Predict, then measure: launch only the predicted best on the GPU that is present, and say so where there is none."""

import subprocess
import sys

import perfmodel as pm

problem = pm.Conv2d(height=2160, width=3840, filter_height=5, filter_width=5)
best = pm.rank(problem, gpu="h200", fidelity="analytic", top=5)
print(f"predicted best: {best.best.configuration}, {best.best.time.predicted_s * 1e6:.0f} µs")

options = ["--height", "2160", "--width", "3840", "--filter-height", "5", "--filter-width", "5", "--top", "5"]
command = [sys.executable, "-m", "perfmodel", "measure", "direct_conv2d", "--gpu", "auto", *options]
run = subprocess.run(command, capture_output=True, text=True, check=False)
print(run.stdout if run.returncode == 0 else f"not measured: {run.stderr.strip()}")
