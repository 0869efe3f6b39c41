// Operators and iterators that CUB had until CUDA 12, by their names there: those of CUDA's C++ library and of Thrust took their place.
#pragma once
#include <cuda/functional>
#include <cuda/std/cstddef>
#include <cuda/std/functional>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/iterator/transform_iterator.h>

namespace cub {
using Max = ::cuda::maximum<>;
using Min = ::cuda::minimum<>;
using Sum = ::cuda::std::plus<>;
using Difference = ::cuda::std::minus<>;
using Division = ::cuda::std::divides<>;
using Equality = ::cuda::std::equal_to<>;
using Inequality = ::cuda::std::not_equal_to<>;
template <typename Value, typename Offset = ::cuda::std::ptrdiff_t>
using ConstantInputIterator = ::thrust::constant_iterator<Value, Offset>;
template <typename Value, typename Offset = ::cuda::std::ptrdiff_t>
using CountingInputIterator = ::thrust::counting_iterator<Value, ::thrust::use_default, ::thrust::use_default, Offset>;
template <typename Offset = ::cuda::std::ptrdiff_t>
using DiscardOutputIterator = ::thrust::discard_iterator<>;
template <typename Value, typename Operation, typename Input, typename Offset = ::cuda::std::ptrdiff_t>
using TransformInputIterator = ::thrust::transform_iterator<Operation, Input, Value>;
} // namespace cub
