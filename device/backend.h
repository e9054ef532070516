// The one interface of everything that can run a launch list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "device/kernel_fault.h"
#include "device/launch_list.h"

namespace zerodiff::device {

// How a run ended. With faults, the launch of the first fault is incomplete, the launches after it
// have not run, and the buffers' contents mean nothing.
struct RunReport {
  std::vector<KernelFault> faults;
  bool ok() const { return faults.empty(); }
};

// A launch list made resident: its buffers exist on the device, with guard bands around them.
class ResidentLaunchList {
 public:
  ResidentLaunchList() = default;
  ResidentLaunchList(const ResidentLaunchList&) = delete;
  ResidentLaunchList& operator=(const ResidentLaunchList&) = delete;
  virtual ~ResidentLaunchList() = default;

  // Gives every buffer its initial content. Needed before the first run.
  virtual void upload() = 0;
  // Gives one buffer another content of the same size (a graph replay with new metadata); until the
  // next upload() of everything it counts as written completely.
  virtual void upload(BufferId buffer, std::span<const std::byte> content) = 0;

  // Runs all launches in order on the buffers as they are, waits for them, and checks the guard
  // bands. Throws Error (infrastructure) if the device fails.
  virtual RunReport run() = 0;

  // Copies a buffer of exactly `content.size()` bytes from the device.
  virtual void download(BufferId buffer, std::span<std::byte> content) const = 0;
  // Copies `content.size()` bytes that begin `byte_offset` bytes after the buffer's first; all must
  // lie in the buffer. (Of a pool that is mapped, but not filled, only these are touched.)
  virtual void download_part(BufferId buffer, std::int64_t byte_offset,
                             std::span<std::byte> content) const = 0;

  // Runs launches [first, last) of the list, which may not be empty, on the buffers as they are and
  // returns the seconds that they took by DeviceTraits::clock. Guard bands are not looked at. Throws
  // Error (infrastructure) if the device fails or a launch does.
  virtual double time_launches(std::size_t first, std::size_t last) = 0;
  // Seconds of a copy, on the device, of one buffer to another of the same size.
  virtual double time_copy(BufferId from, BufferId to) = 0;
};

// What a measurement has to know of a device.
struct DeviceTraits {
  std::string_view clock;        // "device events", "wall clock"
  std::int64_t cache_bytes = 0;  // of the last cache before memory; of the host, of one core
  double fmas_per_second = 0;    // fp32, at the highest clock; 0 if unknown
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "host", "hip", "cuda"
  virtual int wave_width() const = 0;         // 32 or 64
  virtual DeviceTraits traits() const = 0;

  // Allocates the list's buffers. Throws Error: input for a list that is wrong, names an unknown
  // kernel or gives arguments that do not fit its parameters; infrastructure without memory. The
  // list and the backend must outlive the result.
  virtual std::unique_ptr<ResidentLaunchList> allocate(const LaunchList& list) = 0;
};

}  // namespace zerodiff::device
