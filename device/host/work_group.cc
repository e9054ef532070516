#include "device/host/work_group.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "device/host/lane_report.h"

namespace zerodiff::device {
inline namespace host {
namespace {

constexpr std::uint32_t kNoLane = ~std::uint32_t{0};

// Unwinds a waiting lane after a fault elsewhere in the group.
struct LaneUnwound {};
[[noreturn, gnu::cold, gnu::noinline]] void unwind_lane() {
  throw LaneUnwound{};
}

}  // namespace

inline void WorkGroup::set_current(std::uint32_t lane) {
  current_ = lane;
  threadIdx = positions_[lane];
  item_stamp = group_stamp_ | lane;
  states_[lane] = LaneState::running;
}

// The lane whose turn it is; kNoLane when all have returned. Here the usual case: the next lane of
// the wave can go on.
[[gnu::always_inline]] inline std::uint32_t WorkGroup::next_lane() {
  if (!fault_ && cursor_ < wave_end_) {
    const std::uint32_t lane = cursor_;
    if (states_[lane] == LaneState::unstarted || states_[lane] == LaneState::ready) {
      ++cursor_;
      --runnable_;
      return lane;
    }
  }
  return next_lane_of_group();
}

// The current lane waits; others run until it may go on. (Inline: see FiberPool::switch_to.)
[[gnu::always_inline]] inline void WorkGroup::suspend() {
  const std::uint32_t self = current_;
  contexts_[self] = &fibers_.active();
  const std::uint32_t next = next_lane();  // there is one: this lane, if no other
  FiberContext& context = states_[next] == LaneState::unstarted ? fibers_.take() : *contexts_[next];
  set_current(next);
  if (next != self) fibers_.switch_to(context);
  if (fault_) unwind_lane();
}

WorkGroup::WorkGroup(const ExecutorOptions& options)
    : wave_width_(static_cast<std::uint32_t>(options.wave_width)),
      shared_memory_(options.lds_limit, options.checked),
      fibers_([this] { return run_lanes(); }) {}

void WorkGroup::begin_launch(const HostLaunch& launch) {
  launch_ = &launch;
  lane_count_ = static_cast<std::uint32_t>(launch.block.volume());
  positions_.resize(lane_count_);
  for (std::uint32_t lane = 0; lane < lane_count_; ++lane) {
    positions_[lane] = unflatten(lane, launch.block);
  }
  states_.resize(lane_count_);
  sites_.resize(lane_count_);
  contexts_.resize(lane_count_);
  shuffle_groups_.resize((lane_count_ + kShuffleWidth - 1) / kShuffleWidth);
  shared_memory_.begin_launch(launch.lds_bytes);
  blockDim = launch.block;
  gridDim = launch.grid;
}

std::optional<KernelFault> WorkGroup::run(std::uint64_t block) {
  block_ = block;
  interval_ = 0;
  group_stamp_ = make_stamp(launch_->epoch, block, 0, 0);
  returned_ = 0;
  fault_.reset();
  std::fill(states_.begin(), states_.end(), LaneState::unstarted);
  for (ShuffleGroup& group : shuffle_groups_) group.arrived = 0, group.mixed_sites = false;
  shared_memory_.begin_group();
  blockIdx = unflatten(block, launch_->grid);
  current_group = this;
  begin_wave(0);
  set_current(next_lane());
  fibers_.switch_to(fibers_.take());
  current_group = nullptr;
  return std::exchange(fault_, std::nullopt);
}

inline std::uint64_t WorkGroup::exchange(std::uint64_t bits, int source, CallSite site) {
  ShuffleGroup& group = shuffle_groups_[current_ / kShuffleWidth];
  const std::uint32_t parity = group.phase % 2;
  group.values[parity][current_ % kShuffleWidth] = bits;
  if (group.arrived++ == 0) {
    group.site = site;
  } else if (!(site == group.site)) {
    group.mixed_sites = true;
  }
  states_[current_] = LaneState::at_shuffle;
  sites_[current_] = site;
  if (group.arrived == kShuffleWidth && !group.mixed_sites) {
    group.arrived = 0;
    ++group.phase;
    set_state(current_ / kShuffleWidth * kShuffleWidth, kShuffleWidth, LaneState::ready);
    runnable_ += kShuffleWidth;
  }
  suspend();
  return group.values[parity][static_cast<std::size_t>(source)];
}

inline void WorkGroup::wait_at_barrier(CallSite site) {
  states_[current_] = LaneState::at_barrier;
  sites_[current_] = site;
  suspend();
}

std::uint64_t exchange32(std::uint64_t bits, int source, CallSite site) {
  return current_group->exchange(bits, source, site);
}

// NOLINTNEXTLINE(bugprone-reserved-identifier): HIP's and CUDA's name
void __syncthreads(CallSite site) {
  current_group->wait_at_barrier(site);
}

// What a fiber does: runs the current lane, then fresh ones for as long as the next lane in turn
// has not started.
FiberContext* WorkGroup::run_lanes() {
  for (;;) {
    run_current_lane();
    states_[current_] = LaneState::returned;
    ++returned_;
    const std::uint32_t next = next_lane();
    if (next == kNoLane) return &fibers_.thread_context();
    const bool fresh = states_[next] == LaneState::unstarted;
    set_current(next);
    if (!fresh) return contexts_[next];
  }
}

void WorkGroup::run_current_lane() {
  try {
    launch_->body->run_work_item();
  } catch (const LaneUnwound&) {
    return;
  } catch (const WorkItemFault& fault) {
    fail(fault.fault());
  } catch (const std::exception& exception) {
    fail(make_fault(FaultKind::kernel_exception, {}, exception.what()));
  } catch (...) {
    fail(make_fault(FaultKind::kernel_exception, {}, "not a std::exception"));
  }
}

std::uint32_t WorkGroup::next_lane_of_group() {
  while (!fault_) {
    if (runnable_ == 0) {
      if (!finish_wave()) break;
      continue;
    }
    if (cursor_ == wave_end_) cursor_ = wave_begin_;
    const std::uint32_t lane = cursor_++;
    if (states_[lane] == LaneState::unstarted || states_[lane] == LaneState::ready) {
      --runnable_;
      return lane;
    }
  }
  return fault_ ? next_to_unwind() : kNoLane;
}

std::uint32_t WorkGroup::next_to_unwind() const {
  for (std::uint32_t lane = 0; lane < lane_count_; ++lane) {
    const LaneState state = states_[lane];
    if (state == LaneState::ready || state == LaneState::at_shuffle ||
        state == LaneState::at_barrier) {
      return lane;
    }
  }
  return kNoLane;
}

void WorkGroup::begin_wave(std::uint32_t first) {
  wave_begin_ = first;
  wave_end_ = std::min(first + wave_width_, lane_count_);
  cursor_ = wave_begin_;
  runnable_ = wave_end_ - wave_begin_;
}

// No lane of the wave can go on. Returns false when the group has ended, or failed.
bool WorkGroup::finish_wave() {
  for (std::uint32_t lane = wave_begin_; lane < wave_end_; lane += kShuffleWidth) {
    if (shuffle_groups_[lane / kShuffleWidth].arrived == 0) continue;
    const std::uint32_t count = std::min(kShuffleWidth, lane_count_ - lane);
    fail_collective(FaultKind::partial_collective, lane_span(lane, count), LaneState::at_shuffle,
                    kShuffleWidth);
    return false;
  }
  if (wave_end_ == lane_count_) return finish_interval();
  begin_wave(wave_end_);
  return true;
}

// Every lane has returned or waits at a barrier: opens it, if it is one and all are there.
bool WorkGroup::finish_interval() {
  if (returned_ == lane_count_) return false;
  const auto same = [&](const CallSite& site) { return site == sites_[0]; };
  if (returned_ != 0 || !std::all_of(sites_.begin(), sites_.end(), same)) {
    fail_collective(FaultKind::divergent_barrier, lane_span(0, lane_count_), LaneState::at_barrier,
                    lane_count_);
    return false;
  }
  ++interval_;
  group_stamp_ = make_stamp(launch_->epoch, block_, interval_, 0);
  set_state(0, lane_count_, LaneState::ready);
  begin_wave(0);
  return true;
}

void WorkGroup::set_state(std::uint32_t first, std::uint32_t count, LaneState state) {
  std::fill_n(states_.begin() + first, count, state);
}

// The first fault counts; later ones may be its consequences.
void WorkGroup::fail(KernelFault fault) {
  if (!fault_) fault_ = std::move(fault);
}

LaneSpan WorkGroup::lane_span(std::uint32_t first, std::uint32_t count) const {
  return {first, {states_.data() + first, count}, {sites_.data() + first, count}};
}

// Blames the lowest lane that waits.
void WorkGroup::fail_collective(FaultKind kind, const LaneSpan& lanes, LaneState waiting,
                                std::uint32_t wanted) {
  const auto lane = static_cast<std::uint32_t>(
      std::find(lanes.states.begin(), lanes.states.end(), waiting) - lanes.states.begin());
  std::string detail = waiting == LaneState::at_shuffle ? "shuffle " : "barrier ";
  detail += describe_partial(lanes, lane, wanted);
  KernelFault fault = make_fault(kind, lanes.sites[lane], std::move(detail));
  fault.thread = positions_[lanes.first + lane];
  fail(std::move(fault));
}

}  // namespace host
}  // namespace zerodiff::device
