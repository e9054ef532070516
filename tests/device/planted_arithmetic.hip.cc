// A kernel whose arithmetic wrong compiler flags change: check_device_arithmetic.py must notice.
#include "device/platform/platform.hip.h"

namespace zerodiff::device {
inline namespace ZERODIFF_BACKEND {

ZERODIFF_KERNEL_BOUNDS(planted_arithmetic, 64)
(View<const float> in, View<float> out) {
  const float x = in[threadIdx.x];
  const float y = in[threadIdx.x + 64];
  out[threadIdx.x] = sqrtf(x) / y + x * y + y;
  out[threadIdx.x + 64] = fmaf(x, y, x);
}

}  // namespace ZERODIFF_BACKEND
}  // namespace zerodiff::device
