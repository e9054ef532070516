// Runs the threads of one work-group at a time on the calling OS thread.
//
// Each thread of the group is a lane. Lanes run one after the other, in order, until they reach a
// collective or return; a lane that waits keeps its fiber. Waves (32 or 64 lanes) run one after the
// other, too: the lanes of a wave take turns from collective to collective, as in lockstep, until
// all of them wait at a barrier or have returned. So the order of effects is the same in every
// run. A kernel without collectives runs all its lanes on one fiber without a single switch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "device/host/call_site.h"
#include "device/host/collectives.h"
#include "device/host/fiber.h"
#include "device/host/host_launch.h"
#include "device/host/lane_report.h"
#include "device/host/shared_memory.h"
#include "device/host/work_item.h"
#include "device/kernel_fault.h"

namespace zerodiff::device {
inline namespace host {

inline constexpr std::uint32_t kShuffleWidth = 32;

class WorkGroup {
 public:
  explicit WorkGroup(const ExecutorOptions& options);

  // The launch must outlive its groups' runs.
  void begin_launch(const HostLaunch& launch);
  // Runs block `block` of the grid to its end, or to its first fault; no lane is left behind.
  std::optional<KernelFault> run(std::uint64_t block);

  // What collectives.h calls from lanes. After a fault in another lane they throw what unwinds the
  // calling one.
  friend std::uint64_t exchange32(std::uint64_t bits, int source, CallSite site);
  friend void __syncthreads(CallSite site);  // NOLINT(bugprone-reserved-identifier)
  int wave_width() const { return static_cast<int>(wave_width_); }
  SharedMemory& shared_memory() { return shared_memory_; }

 private:
  // The aligned lanes that shuffle with each other.
  struct ShuffleGroup {
    std::uint32_t arrived = 0;
    CallSite site;  // of the first to arrive
    bool mixed_sites = false;
    std::uint32_t phase = 0;
    // By parity of the phase: a lane may bring its next value before another has read this one.
    std::array<std::array<std::uint64_t, kShuffleWidth>, 2> values{};
  };

  std::uint64_t exchange(std::uint64_t bits, int source, CallSite site);
  void wait_at_barrier(CallSite site);
  FiberContext* run_lanes();
  void run_current_lane();
  void suspend();
  void set_current(std::uint32_t lane);
  std::uint32_t next_lane();
  std::uint32_t next_lane_of_group();
  std::uint32_t next_to_unwind() const;
  void begin_wave(std::uint32_t first);
  bool finish_wave();
  bool finish_interval();
  void set_state(std::uint32_t first, std::uint32_t count, LaneState state);
  void fail(KernelFault fault);
  void fail_collective(FaultKind kind, const LaneSpan& lanes, LaneState waiting,
                       std::uint32_t wanted);
  LaneSpan lane_span(std::uint32_t first, std::uint32_t count) const;

  std::uint32_t wave_width_;
  SharedMemory shared_memory_;
  FiberPool fibers_;

  // Of the launch.
  const HostLaunch* launch_ = nullptr;
  std::uint32_t lane_count_ = 0;
  std::vector<Index3> positions_;  // threadIdx of each lane

  // Of the group.
  std::vector<LaneState> states_;
  std::vector<CallSite> sites_;          // of the collective where a lane waits
  std::vector<FiberContext*> contexts_;  // of lanes that have started
  std::vector<ShuffleGroup> shuffle_groups_;
  Stamp group_stamp_ = 0;  // of lane 0 in this barrier interval
  std::uint64_t block_ = 0;
  std::uint64_t interval_ = 0;
  std::uint32_t current_ = 0;
  std::uint32_t wave_begin_ = 0;
  std::uint32_t wave_end_ = 0;
  std::uint32_t cursor_ = 0;    // where this turn of the wave goes on
  std::uint32_t runnable_ = 0;  // lanes of the wave that can go on
  std::uint32_t returned_ = 0;
  std::optional<KernelFault> fault_;
};

}  // namespace host
}  // namespace zerodiff::device
