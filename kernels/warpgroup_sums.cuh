// Operands of products of warpgroups (wgmma) that name a thread's sums: of every 32 columns it has 16.
#pragma once

#define SUMS_OF_8(i)                                                                                                               \
    "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), "+f"(sum[i + 5]), "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define SUMS_OF_16(i) SUMS_OF_8(i), SUMS_OF_8(i + 8)
#define FIRST_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define SECOND_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define THIRD_16 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define FOURTH_16 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FIRST_8_OF_SECOND_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
