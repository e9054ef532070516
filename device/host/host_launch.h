// One launch as the executor sees it: a kernel with its arguments bound, and a shape.
#pragma once

#include <cstdint>
#include <string>

#include "device/grid.h"

namespace zerodiff::device {
inline namespace host {

// A kernel function with its arguments; calling it runs the current work-item.
class BoundKernel {
 public:
  BoundKernel() = default;
  BoundKernel(const BoundKernel&) = delete;
  BoundKernel& operator=(const BoundKernel&) = delete;
  virtual ~BoundKernel() = default;
  virtual void run_work_item() const = 0;
};

struct HostLaunch {
  std::string kernel;
  std::uint64_t index = 0;  // in the launch list, for reports
  Extent3 grid;             // at most kMaxBlocks blocks
  Extent3 block;            // at most kMaxThreads threads
  std::int64_t lds_bytes = 0;
  std::uint32_t epoch = 0;  // of stamps; differs from every launch whose stamps may still be around
  const BoundKernel* body = nullptr;
};

struct ExecutorOptions {
  int wave_width = 32;                 // or 64
  unsigned threads = 0;                // OS threads; 0: one a processor, at most 16
  bool checked = true;                 // LDS accesses; collectives are always checked
  std::int64_t lds_limit = 64 * 1024;  // bytes a group may have, static and dynamic together
  unsigned max_faults = 8;             // kept of one launch
};

}  // namespace host
}  // namespace zerodiff::device
