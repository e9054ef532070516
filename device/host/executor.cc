#include "device/host/executor.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "device/host/work_group.h"
#include "fixtures/error.h"

namespace zerodiff::device {
inline namespace host {
namespace {

// A worker maps up to 1024 stacks with a guard page each, and a process may have 65,530 mappings.
constexpr unsigned kMaxThreadsByDefault = 16;

unsigned thread_count(const ExecutorOptions& options) {
  if (options.threads != 0) return options.threads;
  return std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreadsByDefault);
}

}  // namespace

// The OS threads, and the launch that they are at.
struct Executor::Crew {
  explicit Crew(const ExecutorOptions& wanted);
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() { stop(); }

  void stop();
  void help();
  void work(WorkGroup& group);
  void work_on_blocks(WorkGroup& group);
  void add_fault(std::uint64_t block, KernelFault fault);

  ExecutorOptions options;
  WorkGroup own_group;
  std::vector<std::thread> helpers;

  std::mutex mutex;
  std::condition_variable launch_began;
  std::condition_variable helpers_done;
  std::uint64_t generation = 0;  // of launches that helpers take part in
  std::size_t busy_helpers = 0;
  bool stopping = false;

  const HostLaunch* launch = nullptr;
  std::uint64_t blocks = 0;
  std::uint64_t chunk = 1;
  std::atomic<std::uint64_t> next_block{0};
  std::atomic<std::uint64_t> last_block{0};  // that still matters
  std::vector<std::pair<std::uint64_t, KernelFault>> faults;
  std::exception_ptr failure;  // no memory for a stack, say
};

Executor::Crew::Crew(const ExecutorOptions& wanted) : options(wanted), own_group(wanted) {
  try {
    for (unsigned i = 1; i < thread_count(options); ++i) helpers.emplace_back([this] { help(); });
  } catch (const std::system_error& error) {
    stop();
    throw Error::infrastructure("host backend", std::string("no OS thread: ") + error.what());
  }
}

void Executor::Crew::stop() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  launch_began.notify_all();
  for (std::thread& helper : helpers) helper.join();
  helpers.clear();
}

void Executor::Crew::help() {
  std::optional<WorkGroup> group;  // made here: its fibers belong to this OS thread
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex);
  for (;;) {
    launch_began.wait(lock, [&] { return stopping || generation != seen; });
    if (stopping) return;
    seen = generation;
    lock.unlock();
    if (!group) group.emplace(options);
    work(*group);
    lock.lock();
    if (--busy_helpers == 0) helpers_done.notify_one();
  }
}

void Executor::Crew::work(WorkGroup& group) {
  try {
    group.begin_launch(*launch);
    work_on_blocks(group);
  } catch (...) {
    const std::lock_guard lock(mutex);
    failure = std::current_exception();
    next_block = blocks;
  }
}

// Blocks are handed out in ascending order, so every block below the last that matters is
// somebody's.
void Executor::Crew::work_on_blocks(WorkGroup& group) {
  for (;;) {
    const std::uint64_t begin = next_block.fetch_add(chunk);
    const std::uint64_t end = std::min(begin + chunk, blocks);
    for (std::uint64_t block = begin; block < end; ++block) {
      if (block > last_block) return;
      if (std::optional<KernelFault> fault = group.run(block)) add_fault(block, std::move(*fault));
    }
    if (end >= blocks) return;
  }
}

// Keeps the lowest blocks, whichever came first.
void Executor::Crew::add_fault(std::uint64_t block, KernelFault fault) {
  fault.kernel = launch->kernel;
  fault.launch = launch->index;
  const std::lock_guard lock(mutex);
  const auto after = std::find_if(faults.begin(), faults.end(),
                                  [&](const auto& other) { return other.first > block; });
  faults.emplace(after, block, std::move(fault));
  if (faults.size() > options.max_faults) faults.pop_back();
  if (faults.size() == options.max_faults) last_block = faults.back().first;
}

Executor::Executor(const ExecutorOptions& options) : crew_(std::make_unique<Crew>(options)) {}

Executor::~Executor() = default;

unsigned Executor::threads() const {
  return static_cast<unsigned>(crew_->helpers.size()) + 1;
}

std::vector<KernelFault> Executor::run(const HostLaunch& launch) {
  Crew& crew = *crew_;
  crew.launch = &launch;
  crew.blocks = launch.grid.volume();
  crew.chunk = std::max<std::uint64_t>(1, crew.blocks / (std::uint64_t{64} * threads()));
  crew.next_block = 0;
  crew.last_block = std::numeric_limits<std::uint64_t>::max();
  const bool together = crew.blocks > 1 && !crew.helpers.empty();
  if (together) {
    const std::lock_guard lock(crew.mutex);
    ++crew.generation;
    crew.busy_helpers = crew.helpers.size();
  }
  if (together) crew.launch_began.notify_all();
  crew.work(crew.own_group);
  std::unique_lock lock(crew.mutex);
  crew.helpers_done.wait(lock, [&] { return crew.busy_helpers == 0; });

  if (crew.failure) std::rethrow_exception(std::exchange(crew.failure, nullptr));
  std::vector<KernelFault> faults;
  for (auto& [block, fault] : std::exchange(crew.faults, {})) faults.push_back(std::move(fault));
  return faults;
}

}  // namespace host
}  // namespace zerodiff::device
