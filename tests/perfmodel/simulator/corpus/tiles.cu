// Cooperative groups: tiles of a block, reductions within them, a coalesced group.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

extern "C" __global__ void tiles(int *out, int *leaders, const int *in)
{
    const auto block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    const int i = block.group_index().x * block.size() + block.thread_rank();
    const int sum = cg::reduce(tile, in[i], cg::plus<int>());
    out[i] = sum + tile.shfl(in[i], 3) * 1000 + tile.meta_group_rank() * 100000;
    block.sync();
    if (in[i] % 2) {
        const auto odd = cg::coalesced_threads();
        if (odd.thread_rank() == 0)
            leaders[i / 32] = odd.size();
    }
}
