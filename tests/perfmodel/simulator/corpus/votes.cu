// Votes, matches and ballots of warps.
extern "C" __global__ void votes(unsigned *out, const int *in, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int value = in[i];
    const unsigned all = 0xffffffffu;
    int same = 0;
    out[i] = __ballot_sync(all, value % 2);
    out[i + n] = __any_sync(all, value == 5) + 2 * __all_sync(all, value >= 0);
    out[i + 2 * n] = __match_any_sync(all, value);
    out[i + 3 * n] = __match_all_sync(all, value / 100, &same) + same;
    unsigned odd = 0;
    if (value % 2)
        odd = __ballot_sync(__activemask(), value > 3);
    out[i + 4 * n] = odd;
    __syncwarp();
}
