"""A Triton kernel on GPUs that are not here: what it takes, and which block size to choose."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    """Add two vectors."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    tl.store(out + index, tl.load(x + index, mask=inside) + tl.load(y + index, mask=inside), mask=inside)


if __name__ == "__main__":
    import perfmodel as pm

    ranked = pm.rank_configurations(
        add,
        [triton.Config({"BLOCK": block}, num_warps=4) for block in (128, 1024)],
        args=["f32[1000000]", "f32[1000000]", "f32[1000000]", 1_000_000],
        grid=lambda values: triton.cdiv(values["n"], values["BLOCK"]),
        gpu="h200",
    )
    for found in ranked.top:
        time = found.prediction.time
        print(f"{found.configuration.defines}: {time.predicted_s * 1e6:.1f} µs, limited by {time.limiter}")
