// Runs launches: work-groups over OS threads, work-items of a group over fibers.
//
// For kernels whose work-groups do not disturb each other, the results do not depend on the number
// of OS threads; nor do the faults that are reported.
#pragma once

#include <memory>
#include <vector>

#include "device/host/host_launch.h"
#include "device/kernel_fault.h"

namespace zerodiff::device {
inline namespace host {

class Executor {
 public:
  // Throws Error (infrastructure) if OS threads cannot be started.
  explicit Executor(const ExecutorOptions& options);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor();

  // Runs every group of the launch; the calling thread takes part. A faulty group ends at its first
  // fault, and groups after the `max_faults`-th faulty one may be left out. Returns the faults of
  // the lowest faulty blocks, ascending; none means that the launch is complete. Not reentrant.
  // Throws std::bad_alloc.
  std::vector<KernelFault> run(const HostLaunch& launch);

  unsigned threads() const;

 private:
  struct Crew;
  std::unique_ptr<Crew> crew_;
};

}  // namespace host
}  // namespace zerodiff::device
