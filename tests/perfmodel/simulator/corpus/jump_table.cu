// A switch dense enough for a jump table.
extern "C" __global__ void jump_table(int *out, const int *in, const int *data)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = data[i];
    switch (in[i]) {
    case 0: value += data[i + 1]; break;
    case 1: value *= 3; data += 2;
    case 2: value -= data[i]; break;
    case 3: value ^= 0x55; break;
    case 4: value = -value; data++;
    case 5: value = value / 7 + data[i]; break;
    case 6: value <<= 3; break;
    case 7: out[i] = 1; return;
    case 8: value |= 0xff00; break;
    default: value = 0;
    }
    out[i] = value;
}
