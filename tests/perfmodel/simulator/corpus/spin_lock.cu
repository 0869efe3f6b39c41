// One thread of each block after another takes a lock: needs threads that make progress independently.
extern "C" __global__ void spin_lock(int *lock, int *counter)
{
    for (bool done = false; !done;) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *(volatile int *)counter = *(volatile int *)counter + threadIdx.x % 7 + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}
