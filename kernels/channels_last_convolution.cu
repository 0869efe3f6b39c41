// channels_last_convolution: dense convolution (cross-correlation) with zero padding in half precision or TF32, as a matrix product on
// tensor cores whose rows, the windows of the input, are read from patches in shared memory and nowhere written (implicit GEMM).
//
// Layout:    input  [batch][HEIGHT][WIDTH][in_channels]                            channels lie closest
//            filter [out_channels][FILTER_HEIGHT][FILTER_WIDTH][in_channels]
//            output [batch][positions][out_channels]                               positions = output height * width of an image
//            Where FILTER_TAPS, STRIDE and PADDING say that it is a product of matrices (POINTWISE) the input is
//            [batch * positions][in_channels].
// Grid:      x = tiles of POSITION_TILE output positions, counted row by row through all images; y = tiles of FILTER_TILE filters;
//            z = CHANNEL_SPLIT parts of the slabs of input channels. The blocks along z are one cluster (compute capability 9.0).
// Block:     FILTER_WARPS x POSITION_WARPS x CHANNEL_SLICES warps. Slabs of SLAB_CHANNELS input channels pass through STAGES stages
//            of shared memory, asynchronously. Each slice takes every CHANNEL_SLICES-th group of PRODUCT_TERMS channels of a slab.
//            Warpgroups start the copies of a slab in parts, one behind each product of a slab before it.
// Warp:      WARP_POSITIONS x WARP_FILTERS outputs, in tiles of 16 x 8; each product adds 32 bytes of channels of one tap. Sums are
//            FP32. Tensor cores ignore the last 13 bits of a factor in TF32; those that pass through registers are rounded.
//            Where warpgroups multiply (WARPGROUPS, compute capability 9.0), four neighbouring warps share a product, whose rows,
//            positions, lie in registers and whose columns, the filters of a warp, tensor cores read from shared memory.
// Stage:     the taps of the filters, then the pixels of the patch, whose channels are SLAB_PITCH elements apart, so that eight
//            neighbours, 16 bytes each, are on all banks. For warpgroups filters come tap by tap, FILTER_PITCH elements apart, and their
//            chunks of 16 bytes are exchanged as wgmma knows it (swizzle). Of the channels COPIED_CHANNELS are copied. The patch is
//            PATCH_ROWS whole rows of the images, one below the other with their padding, which is zero for good; of a product of
//            matrices it is the tile's positions.
// Few:       where channels are few (PIXEL_CHANNELS > 0) pixels of the patch are so many elements apart, zeros beyond the channels, and the
//            terms of a filter's row, whose pixels lie side by side, take the place of the channels of a tap: TAPS is the filter's height,
//            SLAB_CHANNELS the terms of a row with zeros behind them, and there is one slab. These zeros meet pixels beyond the window:
//            where such a pixel is infinite or no number, the output is no number.
// End:       outputs pass through shared memory, so that whole lines are stored; sums that slices or the blocks of a cluster share do so
//            as they are (matrix_product.cuh).
// Constants: fields of problem and configuration in capitals; what else is derived has its one home in the family.

#define FILTER_TAPS (FILTER_HEIGHT * FILTER_WIDTH)
#define POINTWISE (FILTER_TAPS == 1 && STRIDE == 1 && PADDING == 0)
#define FILTER_TILE (FILTER_WARPS * WARP_FILTERS)
#define POSITION_TILE (POSITION_WARPS * WARP_POSITIONS)
#define SLICE_WARPS (FILTER_WARPS * POSITION_WARPS)
#define THREADS (32 * SLICE_WARPS * CHANNEL_SLICES)
#define PRODUCT_TERMS (32 / ELEMENT_BYTES)
#define CHUNK (16 / ELEMENT_BYTES)
#define PRODUCTS_OF_TAP (SLAB_CHANNELS / PRODUCT_TERMS / CHANNEL_SLICES)
#define PRODUCTS (TAPS * PRODUCTS_OF_TAP)
#define FEW_CHANNELS (PIXEL_CHANNELS > 0)
#define ROWS (WARP_POSITIONS / 16)
#define COLUMNS (WARP_FILTERS / 8)
#define CHANNELS_LAST 1

#define OUTPUT_HEIGHT ((HEIGHT + 2 * PADDING - FILTER_HEIGHT) / STRIDE + 1)
#define OUTPUT_WIDTH ((WIDTH + 2 * PADDING - FILTER_WIDTH) / STRIDE + 1)
#define PADDED_HEIGHT (HEIGHT + 2 * PADDING)
#define PADDED_WIDTH (WIDTH + 2 * PADDING)
#define FILTER_ROWS (FILTER_TILE * TAPS)
#if WARPGROUPS
#define FILTER_PITCH (SLAB_CHANNELS < 8 * CHUNK ? SLAB_CHANNELS : 8 * CHUNK)
#define INPUT_START (FILTER_ROWS * SLAB_CHANNELS)
#else
#define FILTER_PITCH SLAB_PITCH
#define INPUT_START (FILTER_ROWS * FILTER_PITCH)
#endif
#if FEW_CHANNELS
#define PIXEL_PITCH PIXEL_CHANNELS
#else
#define PIXEL_PITCH SLAB_PITCH
#endif
#define STAGE ((INPUT_START + PATCH_PIXELS * PIXEL_PITCH + STAGE_UNIT - 1) / STAGE_UNIT * STAGE_UNIT)

// Products of a slab behind each of which warpgroups start a part of the copies of a later one: reads of shared memory would wait for
// all of them at once, and the next slab for those behind the last products.
#define SPREAD_PRODUCTS (PRODUCTS > 3 ? PRODUCTS - 2 : 1)

#define SHARED_SUMS (CHANNEL_SLICES > 1 || CHANNEL_SPLIT > 1)

#include "matrix_product.cuh"
#include "warpgroup_sums.cuh"

#if !FEW_CHANNELS
// Neighbouring threads copy neighbouring vectors of the channels of a pixel or tap, and then those of every COPY_STEP-th.
#define COPY_LANES (COPIED_CHANNELS / INPUT_VECTOR)
#define COPY_STEP (THREADS / COPY_LANES)
#define INPUT_PASSES ((COPIED_PIXELS + COPY_STEP - 1) / COPY_STEP)
#define FILTER_PASSES ((FILTER_ROWS + COPY_STEP - 1) / COPY_STEP)

constexpr bool STEPS_OF_TILE = FILTER_TILE % COPY_STEP == 0;
constexpr int UNROLLED_FILTER_PASSES = FILTER_PASSES <= 2 * MOST_PASSES ? FILTER_PASSES : MOST_PASSES;
// Where a thread copies from and to is kept, if it is little; else it is computed for each slab.
constexpr int KEPT_PASSES = INPUT_PASSES <= MOST_PASSES ? INPUT_PASSES : 1;
constexpr int UNROLLED_INPUT_PASSES = INPUT_PASSES <= MOST_PASSES ? INPUT_PASSES : MOST_PASSES;
#endif
constexpr unsigned NOWHERE = 0xffffffff;

// Row of the padded images, one below the other, where the window of an output position begins.
__device__ __forceinline__ unsigned padded_row(const unsigned position)
{
    const unsigned row = position / OUTPUT_WIDTH;
    return row / OUTPUT_HEIGHT * PADDED_HEIGHT + row % OUTPUT_HEIGHT * STRIDE;
}

// A pixel of the patch that a thread copies.
struct Pixel {
    unsigned from; // elements from the input's start, or NOWHERE
    unsigned to;   // elements from the start of a stage's patch

    __device__ __forceinline__ void find(const unsigned pixel, const unsigned first_position, const unsigned all_positions,
                                         const unsigned in_channels)
    {
#if POINTWISE
        // Positions beyond that repeat the last would all be read from one slice of L2, by all blocks at once.
        from = first_position + pixel < all_positions ? (first_position + pixel) * in_channels : NOWHERE;
        to = pixel * PIXEL_PITCH;
#else
        const unsigned patch_row = pixel / WIDTH, column = pixel % WIDTH;
        const unsigned padded = padded_row(first_position) + patch_row;
        const unsigned image = padded / PADDED_HEIGHT, of_image = padded % PADDED_HEIGHT - PADDING;
        const bool exists = patch_row < PATCH_ROWS && image * (OUTPUT_HEIGHT * OUTPUT_WIDTH) < all_positions && of_image < HEIGHT;
        from = exists ? ((image * HEIGHT + of_image) * WIDTH + column) * in_channels : NOWHERE;
        to = (patch_row * ROW_PIXELS + PADDING + column) * PIXEL_PITCH;
#endif
    }
};

#if WARPGROUPS
// Elements from the start of a stage to a group of channels of its first filter: 128 bytes of all filters, then the next.
__device__ __forceinline__ constexpr unsigned group_place(const unsigned channel)
{
    return channel / FILTER_PITCH * (FILTER_ROWS * FILTER_PITCH) + channel % FILTER_PITCH;
}

// Bytes from the start of a stage to a channel of a filter: bits of the row are added to those of the chunk of 16 bytes.
__device__ __forceinline__ unsigned chunk_place(const unsigned row, const unsigned channel)
{
    const unsigned place = ELEMENT_BYTES * (row * FILTER_PITCH + group_place(channel));
    return place ^ (place >> 3 & (ELEMENT_BYTES * FILTER_PITCH / 16 - 1) << 4);
}
#endif

#if !FEW_CHANNELS
// What a thread copies of each slab: the same vector of its taps and pixels.
struct SlabCopies {
    const Element *of_filter, *of_input;
    Pixel pixels[KEPT_PASSES];
    const unsigned first_position, all_positions, in_channels;
    unsigned channel, row, rows; // taps of filters that exist

    __device__ __forceinline__ SlabCopies(const Element *input, const Element *filter, const unsigned first_filter,
                                          const unsigned first_position, const unsigned all_positions, const unsigned first_channel,
                                          const unsigned in_channels, const unsigned out_channels)
        : first_position(first_position), all_positions(all_positions), in_channels(in_channels),
          channel(threadIdx.x % COPY_LANES * INPUT_VECTOR), row(threadIdx.x / COPY_LANES), rows((out_channels - first_filter) * FILTER_TAPS)
    {
        of_filter = later(filter, first_filter * FILTER_TAPS + first_tap(), in_channels) + first_channel + channel;
        of_input = input + first_channel + channel;
#pragma unroll
        for (int pass = 0; pass < KEPT_PASSES; pass++)
            pixels[pass].find(row + pass * COPY_STEP, first_position, all_positions, in_channels);
    }

    // Of the tile's filters, the tap that this thread copies first: of warpgroups that of one of them, if steps end with tiles.
    __device__ __forceinline__ unsigned first_tap() const { return !WARPGROUPS ? row : STEPS_OF_TILE ? row * FILTER_TAPS : 0; }

    // Starts the copies of the next slab to the stage at that address; there are so many channels left. Zeros are written where a
    // stage is read and nothing exists.
    __device__ __forceinline__ void fetch(const Element *filter, const unsigned stage, const unsigned channels_left)
    {
#pragma unroll UNROLLED_FILTER_PASSES
        for (int pass = 0; pass < FILTER_PASSES; pass++)
            fetch_taps(filter, stage, channels_left, pass);
#pragma unroll UNROLLED_INPUT_PASSES
        for (int pass = 0; pass < INPUT_PASSES; pass++)
            fetch_pixels(filter, stage, channels_left, pass);
    }

    __device__ __forceinline__ void fetch_taps(const Element *filter, const unsigned stage, const unsigned channels_left, const int pass)
    {
        const int first = pass * COPY_STEP;
        if ((THREADS % COPY_LANES == 0 || row < COPY_STEP) && (first + COPY_STEP <= FILTER_ROWS || row + first < FILTER_ROWS)) {
            // Taps from this thread's first one on.
#if WARPGROUPS
            const unsigned of_tiles = STEPS_OF_TILE ? first : row + first;
            const unsigned from = of_tiles % FILTER_TILE * FILTER_TAPS + of_tiles / FILTER_TILE;
            const unsigned place =
                COPY_STEP % 8 == 0 ? ELEMENT_BYTES * (first * FILTER_PITCH) + chunk_place(row, channel) : chunk_place(row + first, channel);
#else
            const unsigned from = first, place = ELEMENT_BYTES * ((row + first) * FILTER_PITCH + channel);
#endif
            const bool exists = (!CHANNEL_TAIL || channel < channels_left) && (!FILTER_TAIL || first_tap() + from < rows);
            copy<INPUT_VECTOR, !CHANNEL_TAIL && !FILTER_TAIL>(stage + place, exists ? later(of_filter, in_channels, from) : filter, exists);
        }
    }

    __device__ __forceinline__ void fetch_pixels(const Element *filter, const unsigned stage, const unsigned channels_left, const int pass)
    {
        if (THREADS % COPY_LANES == 0 || row < COPY_STEP) {
            Pixel pixel = pixels[KEPT_PASSES == INPUT_PASSES ? pass : 0];
            if (KEPT_PASSES < INPUT_PASSES)
                pixel.find(row + pass * COPY_STEP, first_position, all_positions, in_channels);
            const bool whole = !CHANNEL_TAIL || channel < channels_left;
            const bool exists = pixel.from != NOWHERE; // outside of images zeros stay
            if (POINTWISE ? (pass + 1) * COPY_STEP <= COPIED_PIXELS || row + pass * COPY_STEP < COPIED_PIXELS : exists)
                copy<INPUT_VECTOR, !CHANNEL_TAIL && !POINTWISE>(stage + ELEMENT_BYTES * (INPUT_START + pixel.to + channel),
                                                                whole && exists ? of_input + pixel.from : filter, whole && exists);
        }
    }

    // One of SPREAD_PRODUCTS parts of the copies of a slab, so many passes each.
    __device__ __forceinline__ void fetch_part(const Element *filter, const unsigned stage, const unsigned channels_left, const int part)
    {
        constexpr int PASSES = FILTER_PASSES + INPUT_PASSES, OF_PART = (PASSES + SPREAD_PRODUCTS - 1) / SPREAD_PRODUCTS;
#pragma unroll
        for (int i = 0; i < OF_PART; i++) {
            const int pass = part * OF_PART + i;
            if (pass < FILTER_PASSES)
                fetch_taps(filter, stage, channels_left, pass);
            else if (pass < PASSES)
                fetch_pixels(filter, stage, channels_left, pass - FILTER_PASSES);
        }
    }

    __device__ __forceinline__ void next_slab()
    {
        of_filter += SLAB_CHANNELS;
        of_input += SLAB_CHANNELS;
    }
};

#else
// Copies the channels of neighbouring pixels, of which COPY_PIXELS are read at once, to places PIXEL_CHANNELS apart.
template <int PIXELS> __device__ __forceinline__ void spread(Element *to, const Element *from, const bool exists)
{
    constexpr int ELEMENTS = PIXELS * CHANNELS, VECTOR = ELEMENTS % INPUT_VECTOR == 0 ? INPUT_VECTOR : 1;
    alignas(16) Element elements[ELEMENTS];
#pragma unroll
    for (int first = 0; first < ELEMENTS; first += VECTOR)
        if (exists)
            move<VECTOR>(elements + first, from + first);
#pragma unroll
    for (int pixel = 0; pixel < PIXELS; pixel++) {
        alignas(16) Element spaced[PIXEL_CHANNELS] = {};
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel++)
            spaced[channel] = exists ? elements[pixel * CHANNELS + channel] : Element(0);
        move<PIXEL_CHANNELS>(to + pixel * PIXEL_CHANNELS, spaced);
    }
}

// Copies filters and patch to the only stage, which holds zeros; filters beyond the last stay zero.
__device__ __forceinline__ void copy_few(Element *stage, const Element *input, const Element *filter, const BlockWork &work,
                                         const unsigned out_channels)
{
    static_assert(COPIED_PIXELS % COPY_PIXELS == 0, "rows of the input are whole copies");
#pragma unroll 4
    for (unsigned tap = threadIdx.x; tap < FILTER_TILE * FILTER_TAPS; tap += THREADS) {
        const unsigned of_tile = tap / FILTER_TAPS, row = tap % FILTER_TAPS / FILTER_WIDTH, column = tap % FILTER_WIDTH;
        const bool exists = !FILTER_TAIL || work.first_filter + of_tile < out_channels;
#if WARPGROUPS
        const unsigned place = chunk_place(row * FILTER_TILE + of_tile, column * PIXEL_CHANNELS) / ELEMENT_BYTES;
#else
        const unsigned place = (of_tile * TAPS + row) * FILTER_PITCH + column * PIXEL_CHANNELS;
#endif
        spread<1>(stage + place, filter + (work.first_filter * FILTER_TAPS + tap) * CHANNELS, exists);
    }
#pragma unroll 4
    for (unsigned first = COPY_PIXELS * threadIdx.x; first < COPIED_PIXELS; first += COPY_PIXELS * THREADS) {
        Pixel pixel;
        pixel.find(first, work.first_position, work.all_positions, CHANNELS);
        if (pixel.from != NOWHERE)
            spread<COPY_PIXELS>(stage + INPUT_START + pixel.to, input + pixel.from, true);
    }
}
#endif

__device__ __forceinline__ void read_matrices(unsigned *to, const unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
#if ELEMENT_BYTES == 4
#pragma unroll
    for (int i = 0; i < 4; i++)
        to[i] += 0x1000; // tensor cores ignore the 13 bits behind
#endif
}

#if ELEMENT_BYTES == 2
#define PRODUCT_OF_WARP "m16n8k16.row.col.f32.f16.f16"
#define PRODUCT_OF_GROUP(columns) "m64n" columns "k16.f32.f16.f16 {"
#define NOT_TURNED ", 0"
#else
#define PRODUCT_OF_WARP "m16n8k8.row.col.f32.tf32.tf32"
#define PRODUCT_OF_GROUP(columns) "m64n" columns "k8.f32.tf32.tf32 {"
#define NOT_TURNED ""
#endif

__device__ __forceinline__ void add_product(float *sum, const unsigned *of_row, const unsigned *of_column)
{
    asm("mma.sync.aligned." PRODUCT_OF_WARP ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(of_row[0]), "r"(of_row[1]), "r"(of_row[2]), "r"(of_row[3]), "r"(of_column[0]), "r"(of_column[1]));
}

#if WARPGROUPS
// sum += of_row, 64 positions of a warpgroup, times WARP_FILTERS filters that begin at an address of shared memory.
__device__ __forceinline__ void add_warpgroup_product(float *sum, const unsigned *of_row, const unsigned filters)
{
    constexpr unsigned PITCH = ELEMENT_BYTES * FILTER_PITCH;
    constexpr unsigned long long SWIZZLE = PITCH == 128 ? 1 : PITCH == 64 ? 2 : 3;
    const unsigned long long matrix = (filters & 0x3ffff) >> 4 | 1ull << 16 | static_cast<unsigned long long>(8 * PITCH >> 4) << 32 | SWIZZLE << 62;
#if WARP_FILTERS == 32
    asm volatile("wgmma.mma_async.sync.aligned." PRODUCT_OF_GROUP("32") FIRST_16 "}, {%16, %17, %18, %19}, %20, 1, 1, 1" NOT_TURNED ";"
                 : SUMS_OF_16(0)
#elif WARP_FILTERS == 64
    asm volatile("wgmma.mma_async.sync.aligned." PRODUCT_OF_GROUP("64") FIRST_16 SECOND_16 "}, {%32, %33, %34, %35}, %36, 1, 1, 1" NOT_TURNED ";"
                 : SUMS_OF_16(0), SUMS_OF_16(16)
#elif WARP_FILTERS == 96
    asm volatile("wgmma.mma_async.sync.aligned." PRODUCT_OF_GROUP("96") FIRST_16 SECOND_16 THIRD_16
                 "}, {%48, %49, %50, %51}, %52, 1, 1, 1" NOT_TURNED ";"
                 : SUMS_OF_16(0), SUMS_OF_16(16), SUMS_OF_16(32)
#elif WARP_FILTERS == 128
    asm volatile("wgmma.mma_async.sync.aligned." PRODUCT_OF_GROUP("128") FIRST_16 SECOND_16 THIRD_16 FOURTH_16
                 "}, {%64, %65, %66, %67}, %68, 1, 1, 1" NOT_TURNED ";"
                 : SUMS_OF_16(0), SUMS_OF_16(16), SUMS_OF_16(32), SUMS_OF_16(48)
#endif
                 : "r"(of_row[0]), "r"(of_row[1]), "r"(of_row[2]), "r"(of_row[3]), "l"(matrix));
}
#endif

extern "C" __global__ void CLUSTER __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    channels_last_convolution(Element *__restrict__ output, const Element *__restrict__ input, const Element *__restrict__ filter,
                     const unsigned batch, const unsigned in_channels, const unsigned out_channels, const unsigned positions)
{
    extern __shared__ __align__(1024) float4 shared_memory[];

    const BlockWork work(batch, positions, in_channels);

#if !POINTWISE || COPIED_CHANNELS < SLAB_CHANNELS
    constexpr unsigned ZEROS_START = COPIED_CHANNELS < SLAB_CHANNELS ? 0 : INPUT_START;
    for (unsigned stage = 0; stage < STAGES * STAGE; stage += STAGE)
        for (unsigned first = ZEROS_START + CHUNK * threadIdx.x; first < STAGE; first += CHUNK * THREADS)
            *reinterpret_cast<float4 *>(reinterpret_cast<Element *>(shared_memory) + stage + first) = float4{};
    __syncthreads();
#endif
    const unsigned stages = static_cast<unsigned>(__cvta_generic_to_shared(shared_memory));
#if FEW_CHANNELS
    const auto fetch = [&]() {};
    copy_few(reinterpret_cast<Element *>(shared_memory), input, filter, work, out_channels);
#else
    SlabCopies slab_copies(input, filter, work.first_filter, work.first_position, work.all_positions, work.first_slab * SLAB_CHANNELS,
                           in_channels, out_channels);
    bool in_parts = false; // whether the copies have been started part by part
    const auto copies = [&](const unsigned stage, const unsigned channels_left) {
        if (!in_parts)
            slab_copies.fetch(filter, stage, channels_left);
        slab_copies.next_slab();
    };
    const SlabFetch fetch(copies, work.first_slab, work.end_slab, in_channels, stages);
#endif

    const unsigned lane = threadIdx.x % 32, slice = threadIdx.x / 32 / SLICE_WARPS;
    const unsigned warp_filter = threadIdx.x / 32 % SLICE_WARPS / POSITION_WARPS * WARP_FILTERS;
    const unsigned warp_position = threadIdx.x / 32 % POSITION_WARPS * WARP_POSITIONS;
    // Matrices of a read: of positions eight rows below, then eight channels further; of filters the other way around.
    unsigned rows[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const unsigned of_tile = warp_position + r * 16 + lane % 16;
#if POINTWISE
        const unsigned pixel = of_tile;
#else
        const unsigned position = min(work.first_position + of_tile, work.all_positions - 1);
        const unsigned pixel = (padded_row(position) - padded_row(work.first_position)) * ROW_PIXELS + position % OUTPUT_WIDTH * STRIDE;
#endif
        rows[r] = stages + ELEMENT_BYTES * (INPUT_START + pixel * PIXEL_PITCH + lane / 16 * CHUNK + slice * PRODUCT_TERMS);
    }
    float sum[ROWS][COLUMNS][4] = {};
    const auto pixel_of_tap = [](const unsigned tap) {
        return FEW_CHANNELS ? tap * ROW_PIXELS : tap / FILTER_WIDTH * ROW_PIXELS + tap % FILTER_WIDTH;
    };
    const auto channels_of = [](const int number) { return number % PRODUCTS_OF_TAP * CHANNEL_SLICES * PRODUCT_TERMS; };
#if WARPGROUPS
    const unsigned columns = stages + ELEMENT_BYTES * (warp_filter * FILTER_PITCH + slice * PRODUCT_TERMS);
    unsigned a[2][ROWS][4];
    const auto read = [&](unsigned (&to)[ROWS][4], const unsigned stage, const int number) {
        const unsigned first = ELEMENT_BYTES * (stage + channels_of(number) + pixel_of_tap(number / PRODUCTS_OF_TAP) * PIXEL_PITCH);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            read_matrices(to[r], rows[r] + first);
    };
    unsigned stage = 0;
#pragma unroll 1
    for (int ahead = 0; ahead < (STAGES > 1 ? STAGES - 1 : 1); ahead++)
        fetch();
#pragma unroll 1
    for (unsigned left = work.end_slab - work.first_slab; left > 0; left--) {
        // What this thread has copied is there, for tensor cores, too; all have multiplied the slab before, which is overwritten.
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES > 2 ? STAGES - 2 : 0) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
#if !FEW_CHANNELS
        const bool more = STAGES > 1 && fetch.fetched < fetch.end_slab;
#endif
        read(a[0], stage, 0);
#pragma unroll
        for (int number = 0; number < PRODUCTS; number++) {
            const unsigned tap = number / PRODUCTS_OF_TAP;
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                add_warpgroup_product(&sum[r][0][0], a[number % 2][r],
                                      columns + ELEMENT_BYTES * (stage + group_place(channels_of(number)) + tap * FILTER_TILE * FILTER_PITCH));
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#if !FEW_CHANNELS
            if (more && number < SPREAD_PRODUCTS)
                slab_copies.fetch_part(filter, fetch.address, in_channels - fetch.fetched * SLAB_CHANNELS, number);
#endif
            if (number + 1 < PRODUCTS) {
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                read(a[(number + 1) % 2], stage, number + 1);
            }
        }
#if !FEW_CHANNELS
        in_parts = true;
        if (STAGES > 1)
            fetch();
#endif
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        stage = stage == (STAGES - 1) * STAGE ? 0 : stage + STAGE;
    }
#else
    const unsigned columns = stages + ELEMENT_BYTES * ((warp_filter + lane / 16 * 8 + lane % 8) * TAPS * SLAB_PITCH
                                                       + lane / 8 % 2 * CHUNK + slice * PRODUCT_TERMS);

    unsigned a[2][ROWS][4], b[2][COLUMNS / 2][4];
    const auto read = [&](const int buffer, const unsigned stage, const int number) {
        const unsigned tap = number / PRODUCTS_OF_TAP, first = ELEMENT_BYTES * (stage + channels_of(number));
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            read_matrices(a[buffer][r], rows[r] + first + ELEMENT_BYTES * pixel_of_tap(tap) * PIXEL_PITCH);
#pragma unroll
        for (int c = 0; c < COLUMNS / 2; c++)
            read_matrices(b[buffer][c], columns + first + ELEMENT_BYTES * (c * 16 * TAPS + tap) * SLAB_PITCH);
    };
    const auto multiply = [&](const int number) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                add_product(sum[r][c], a[number % 2][r], b[number % 2][c / 2] + c % 2 * 2);
    };
    const auto exchange_buffers = [&]() {
        if (PRODUCTS % 2 == 1) {
#pragma unroll
            for (int i = 0; i < ROWS * 4; i++)
                a[0][i / 4][i % 4] = a[1][i / 4][i % 4];
#pragma unroll
            for (int i = 0; i < COLUMNS * 2; i++)
                b[0][i / 4][i % 4] = b[1][i / 4][i % 4];
        }
    };
    pass_slabs<PRODUCTS, PRODUCTS>(work.end_slab - work.first_slab, fetch, read, multiply, []() {}, exchange_buffers);
#endif

    __syncthreads();
#if SHARED_SUMS
    float *const sums = reinterpret_cast<float *>(shared_memory);
#else
    Element *const tile = reinterpret_cast<Element *>(shared_memory);
#endif
#pragma unroll
    for (int r = 0; r < 2 * ROWS; r++) {
        const unsigned row = warp_position + r * 8 + lane / 4;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            const unsigned column = warp_filter + c * 8 + lane % 4 * 2;
            alignas(8) const float neighbours[2] = {sum[r / 2][c][r % 2 * 2], sum[r / 2][c][r % 2 * 2 + 1]};
#if SHARED_SUMS
            move<2>(sums + slice * SLICE_SUMS + row * SUMS_PITCH + column, neighbours);
#else
            store<2>(tile + row * TILE_PITCH + column, neighbours);
#endif
        }
    }
#if SHARED_SUMS
    store_sums(output, sums, work, out_channels, positions);
#else
    __syncthreads();
#pragma unroll 4
    for (unsigned vector = threadIdx.x; vector < TILE_OUTPUTS / STORE_VECTOR; vector += THREADS) {
        const unsigned row = vector / (FILTER_TILE / STORE_VECTOR), column = vector % (FILTER_TILE / STORE_VECTOR) * STORE_VECTOR;
        const unsigned position = work.first_position + row, filter_index = work.first_filter + column;
        if (position < work.all_positions && (!FILTER_TAIL || filter_index < out_channels))
            move<STORE_VECTOR>(output + position * out_channels + filter_index, tile + row * TILE_PITCH + column);
    }
#endif
}
