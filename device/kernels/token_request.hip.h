// Which request a scheduled token belongs to.
#pragma once

#include "device/kernels/plant.hip.h"
#include "device/platform/platform.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {
inline namespace ZERODIFF_KERNEL_SET {

// The last request r with query_start_loc[r] <= token: of requests without rows, none.
// `query_start_loc` is [num_requests + 1], ascending, and starts with 0; there is a request.
__device__ __forceinline__ int32_t token_request(View<const int32_t> query_start_loc,
                                                 int32_t num_requests, int64_t token) {
  int32_t first = 0;
  int32_t last = num_requests - 1;
  while (first < last) {
    const int32_t middle = last - (last - first) / 2;
    const int32_t start = query_start_loc[middle];
    if (start <= token) {
      first = middle;
    } else {
      last = middle - 1;
    }
  }
  return first;
}

}  // namespace ZERODIFF_KERNEL_SET
}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
