// The planted build of the kernels: the sources of device/kernels with ZERODIFF_PLANT on.
#include "tests/device/planted/plant.h"
// plant.h comes first.
#include "device/kernels/all_kernels.hip.h"
#include "device/kernels/attention_kernels.hip.h"
#include "tests/device/planted/planted_bugs.h"

namespace zerodiff::device {

#define ZERODIFF_REGISTRY_ENTRY(name) ZERODIFF_HOST_KERNEL(name),

const KernelRegistry& planted_kernels() {
  static const KernelRegistry registry({ZERODIFF_ATTENTION_KERNELS(ZERODIFF_REGISTRY_ENTRY)
                                            ZERODIFF_INSERTION_KERNELS(ZERODIFF_REGISTRY_ENTRY)});
  return registry;
}

}  // namespace zerodiff::device
