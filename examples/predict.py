"""Predict one configuration and see what limits it: no GPU, and with fidelity "analytic" no compiler either."""

import perfmodel as pm

problem = pm.TiledConv2d(height=4096, width=4096, filter_height=15, filter_width=15)
configuration = pm.TiledConv2dConfiguration(block_size_x=64, block_size_y=2, tile_size_x=1, tile_size_y=7)
found = pm.predict(problem, configuration, gpu="rtx-2080-ti", fidelity="analytic")

print(f"{found.time.predicted_s * 1e6:.0f} µs, limited by {found.time.limiter}")
print(f"{found.occupancy.blocks_per_sm} blocks per SM, limited by {found.occupancy.limiter}")
print(f"{float(found.counts.global_load_requests):,.0f} global load requests")
