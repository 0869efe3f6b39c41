"""Rank a whole tuning space for two GPUs and put the winners into a pandas table."""

import perfmodel as pm

problem = pm.Conv2d(height=1080, width=1920, filter_height=5, filter_width=5)
winners = [pm.rank(problem, gpu=gpu, fidelity="analytic", top=3) for gpu in ("h200", "rtx-2080-ti")]

table = pm.frame(prediction for ranking in winners for prediction in ranking.top)
print(
    table[["gpu", "reuse", "rows_per_thread", "block_x", "registers_per_thread", "predicted_s"]].to_string(index=False)
)
