#include "device/host/host_backend.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/host/access_stamp.h"
#include "device/host/executor.h"
#include "device/host/host_buffer.h"
#include "device/host/launch_binding.h"
#include "fixtures/error.h"

namespace zerodiff::device {
inline namespace host {
namespace {

ExecutorOptions serial(ExecutorOptions options) {
  options.threads = 1;
  return options;
}

}  // namespace

struct HostBackend::State {
  State(const ExecutorOptions& wanted, const KernelRegistry& registry)
      : options(wanted), kernels(registry), executor(wanted) {}

  ExecutorOptions options;
  const KernelRegistry& kernels;
  Executor executor;
};

namespace {

class HostLaunchList final : public ResidentLaunchList {
 public:
  HostLaunchList(const LaunchList& list, const ExecutorOptions& options,
                 const KernelRegistry& kernels, Executor& executor);

  void upload() override;
  void upload(BufferId buffer, std::span<const std::byte> content) override;
  RunReport run() override;
  void download(BufferId buffer, std::span<std::byte> content) const override;
  void download_part(BufferId buffer, std::int64_t byte_offset,
                     std::span<std::byte> content) const override;
  double time_launches(std::size_t first, std::size_t last) override;
  double time_copy(BufferId from, BufferId to) override;

 private:
  RunReport run_on(Executor& executor);
  std::vector<KernelFault> run_launch(Executor& executor, std::size_t index);
  void add_guard_faults(RunReport& report, std::size_t launch) const;
  std::uint32_t next_epoch();

  const LaunchList& list_;
  const ExecutorOptions& options_;
  const KernelRegistry& kernels_;
  Executor& executor_;
  std::vector<std::unique_ptr<HostBuffer>> buffers_;
  std::uint32_t epoch_ = kFirstEpoch - 1;
  bool as_uploaded_ = false;
};

HostLaunchList::HostLaunchList(const LaunchList& list, const ExecutorOptions& options,
                               const KernelRegistry& kernels, Executor& executor)
    : list_(list), options_(options), kernels_(kernels), executor_(executor) {
  for (const BufferDescription& buffer : list.buffers()) {
    buffers_.push_back(std::make_unique<HostBuffer>(buffer, options.checked));
  }
}

void HostLaunchList::upload() {
  for (const auto& buffer : buffers_) buffer->upload();
  as_uploaded_ = true;
}

void HostLaunchList::upload(BufferId buffer, std::span<const std::byte> content) {
  buffers_.at(buffer.index)->upload(content);
  as_uploaded_ = false;
}

void HostLaunchList::download(BufferId buffer, std::span<std::byte> content) const {
  const std::span<std::byte> source = buffers_.at(buffer.index)->content();
  assert(content.size() == source.size());
  std::ranges::copy(source, content.begin());
}

void HostLaunchList::download_part(BufferId buffer, std::int64_t byte_offset,
                                   std::span<std::byte> content) const {
  const std::span<std::byte> source = buffers_.at(buffer.index)->content();
  const auto offset = static_cast<std::size_t>(byte_offset);
  assert(offset <= source.size() && content.size() <= source.size() - offset);
  std::ranges::copy(source.subspan(offset, content.size()), content.begin());
}

RunReport HostLaunchList::run() {
  const bool repeatable = std::exchange(as_uploaded_, false);
  RunReport report = run_on(executor_);
  if (report.ok() || executor_.threads() == 1 || !repeatable) return report;
  upload();
  as_uploaded_ = false;
  Executor single(serial(options_));
  RunReport again = run_on(single);
  if (!again.ok()) return again;
  for (KernelFault& fault : report.faults) {
    fault.detail += " (seen with " + std::to_string(executor_.threads()) +
                    " OS threads, not with one: it depends on the order of blocks)";
  }
  return report;
}

double HostLaunchList::time_launches(std::size_t first, std::size_t last) {
  as_uploaded_ = false;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = first; i < last; ++i) {
    const std::vector<KernelFault> faults = run_launch(executor_, i);
    if (!faults.empty()) throw Error::infrastructure("host", to_string(faults.front()));
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double HostLaunchList::time_copy(BufferId from, BufferId to) {
  const auto start = std::chrono::steady_clock::now();
  std::ranges::copy(buffers_.at(from.index)->content(), buffers_.at(to.index)->content().begin());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

RunReport HostLaunchList::run_on(Executor& executor) {
  RunReport report;
  for (std::size_t i = 0; i < list_.launches().size() && report.ok(); ++i) {
    report.faults = run_launch(executor, i);
    add_guard_faults(report, i);
  }
  return report;
}

std::vector<KernelFault> HostLaunchList::run_launch(Executor& executor, std::size_t index) {
  const Launch& launch = list_.launches()[index];
  const Binding binding = bind(launch, kernels_, buffers_);
  std::vector<KernelFault> faults = executor.run({.kernel = launch.kernel,
                                                  .index = index,
                                                  .grid = launch.grid,
                                                  .block = launch.block,
                                                  .lds_bytes = launch.lds_bytes,
                                                  .epoch = next_epoch(),
                                                  .body = binding.kernel.get()});
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (binding.written[i]) buffers_[i]->note_written();
  }
  return faults;
}

void HostLaunchList::add_guard_faults(RunReport& report, std::size_t launch) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const std::optional<std::int64_t> damage = buffers_[i]->first_damage();
    if (!damage) continue;
    KernelFault& fault = report.faults.emplace_back();
    fault.kind = FaultKind::guard_band;
    fault.kernel = list_.launches()[launch].kernel;
    fault.launch = launch;
    fault.detail = "byte " + std::to_string(*damage) + " of buffer " + list_.buffers()[i].name +
                   " of " + std::to_string(list_.buffers()[i].size_bytes()) + " bytes has changed";
  }
}

// Stamps of one epoch must be of one launch.
std::uint32_t HostLaunchList::next_epoch() {
  if (epoch_ == kLastEpoch) {
    for (const auto& buffer : buffers_) buffer->forget_epochs();
    epoch_ = kFirstEpoch - 1;
  }
  return ++epoch_;
}

}  // namespace

HostBackend::HostBackend(const ExecutorOptions& options, const KernelRegistry& kernels)
    : state_(std::make_unique<State>(options, kernels)) {
  assert(options.wave_width == 32 || options.wave_width == 64);
}

HostBackend::~HostBackend() = default;

int HostBackend::wave_width() const {
  return state_->options.wave_width;
}

DeviceTraits HostBackend::traits() const {
  // A core's own: what the cores share is too large to be kept cold in a test's time.
  const std::int64_t cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return {.clock = "wall clock",
          .cache_bytes = std::max<std::int64_t>(cache, std::int64_t{1} << 20)};
}

std::unique_ptr<ResidentLaunchList> HostBackend::allocate(const LaunchList& list) {
  list.check();
  for (std::size_t i = 0; i < list.launches().size(); ++i) {
    check_binding(list, i, state_->kernels, state_->options);
  }
  return std::make_unique<HostLaunchList>(list, state_->options, state_->kernels, state_->executor);
}

}  // namespace host
}  // namespace zerodiff::device
