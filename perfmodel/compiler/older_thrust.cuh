// Function objects that Thrust had until CUDA 12.
#pragma once
#include <cuda/std/utility>
#include <thrust/functional.h>

namespace thrust {
template <typename Value = void>
struct identity {
    using argument_type = Value;
    using result_type = Value;
    template <typename Given>
    __host__ __device__ constexpr Given &&operator()(Given &&given) const
    {
        return ::cuda::std::forward<Given>(given);
    }
};
template <typename Argument, typename Result>
struct unary_function {
    using argument_type = Argument;
    using result_type = Result;
};
template <typename First, typename Second, typename Result>
struct binary_function {
    using first_argument_type = First;
    using second_argument_type = Second;
    using result_type = Result;
};
} // namespace thrust
