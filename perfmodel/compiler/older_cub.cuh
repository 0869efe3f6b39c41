// Operators that CUB had until CUDA 12, by their names there: those of CUDA's C++ library took their place.
#pragma once
#include <cuda/functional>
#include <cuda/std/functional>

namespace cub {
using Max = ::cuda::maximum<>;
using Min = ::cuda::minimum<>;
using Sum = ::cuda::std::plus<>;
using Difference = ::cuda::std::minus<>;
using Division = ::cuda::std::divides<>;
using Equality = ::cuda::std::equal_to<>;
using Inequality = ::cuda::std::not_equal_to<>;
} // namespace cub
