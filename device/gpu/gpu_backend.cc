#include "device/gpu/gpu_backend.h"

#include <cassert>
#include <cstring>
#include <map>
#include <utility>

#include "device/gpu/gpu_buffer.h"
#include "device/gpu/gpu_event.h"
#include "device/gpu/gpu_kernels.h"
#include "device/gpu/gpu_runtime.h"

namespace zerodiff::device {
inline namespace ZERODIFF_GPU_RUNTIME {
namespace {

// Work that keeps the device busy while the host enqueues what is timed: a device that waits for
// the host would be timed, too. Far smaller than any cache worth keeping cold.
constexpr std::size_t kDelayBytes = std::size_t{8} << 20;
constexpr int kDelays = 4;

// It does not wait for the default stream, which other threads copy on while this one captures: who
// uploads on that one must synchronise before he launches on this one.
class Stream {
 public:
  Stream() {
    ZERODIFF_GPU_CALL(StreamCreateWithFlags, &stream_, ZERODIFF_GPU_NAME(StreamNonBlocking));
  }
  ~Stream() { static_cast<void>(ZERODIFF_GPU_NAME(StreamDestroy)(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  GpuStream get() const { return stream_; }

 private:
  GpuStream stream_ = nullptr;
};

// Of the default stream alone: another thread may be capturing on this device, and a device that
// captures cannot be waited for.
void wait_for_uploads() {
  ZERODIFF_GPU_CALL(StreamSynchronize, nullptr);
}

// A captured graph, ready to be launched.
class Graph {
 public:
  explicit Graph(GpuGraph graph) : graph_(graph) {
    ZERODIFF_GPU_CALL(GraphInstantiateWithFlags, &executable_, graph_, 0);
  }
  ~Graph() {
    static_cast<void>(ZERODIFF_GPU_NAME(GraphExecDestroy)(executable_));
    static_cast<void>(ZERODIFF_GPU_NAME(GraphDestroy)(graph_));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(GpuStream stream) const { ZERODIFF_GPU_CALL(GraphLaunch, executable_, stream); }

 private:
  GpuGraph graph_ = nullptr;
  GpuGraphExec executable_ = nullptr;
};

// Kernel arguments as the runtime takes them: an array of pointers to the values.
class ArgumentValues {
 public:
  ArgumentValues(const std::vector<Argument>& arguments,
                 const std::vector<std::unique_ptr<GpuBuffer>>& buffers)
      : values_(arguments.size()) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      std::visit([&](const auto& argument) { put(i, argument, buffers); }, arguments[i]);
      pointers_.push_back(&values_[i]);
    }
  }
  void** data() { return pointers_.data(); }

 private:
  using Buffers = std::vector<std::unique_ptr<GpuBuffer>>;

  void put(std::size_t i, const BufferArgument& argument, const Buffers& buffers) {
    const std::byte* const address = buffers[argument.buffer.index]->data() + argument.byte_offset;
    std::memcpy(&values_[i], &address, sizeof address);
  }
  void put(std::size_t i, NullArgument, const Buffers&) { values_[i] = 0; }
  template <class Scalar>
  void put(std::size_t i, const Scalar& scalar, const Buffers&) {
    std::memcpy(&values_[i], &scalar, sizeof scalar);
  }

  std::vector<std::uint64_t> values_;
  std::vector<void*> pointers_;
};

class GpuLaunchList final : public ResidentLaunchList {
 public:
  explicit GpuLaunchList(const LaunchList& list) : list_(list) {
    for (const BufferDescription& buffer : list.buffers()) {
      buffers_.push_back(std::make_unique<GpuBuffer>(buffer));
    }
  }

  void upload() override {
    for (const auto& buffer : buffers_) buffer->upload();
  }
  void upload(BufferId buffer, std::span<const std::byte> content) override {
    buffers_.at(buffer.index)->upload(content);
  }

  RunReport run() override {
    if (!list_.launches().empty()) {
      wait_for_uploads();
      graph_of(0, list_.launches().size()).launch(stream_.get());
      ZERODIFF_GPU_CALL(StreamSynchronize, stream_.get());
    }
    return check_guards();
  }

  double time_launches(std::size_t first, std::size_t last) override {
    const Graph& graph = graph_of(first, last);
    return time([&] { graph.launch(stream_.get()); });
  }
  double time_copy(BufferId from, BufferId to) override {
    const GpuBuffer& source = *buffers_.at(from.index);
    const auto size = static_cast<std::size_t>(list_.buffer(from).size_bytes());
    assert(list_.buffer(to).size_bytes() == list_.buffer(from).size_bytes());
    return time([&] {
      ZERODIFF_GPU_CALL(MemcpyAsync, buffers_.at(to.index)->data(), source.data(), size,
                        ZERODIFF_GPU_NAME(MemcpyDeviceToDevice), stream_.get());
    });
  }

  void download(BufferId buffer, std::span<std::byte> content) const override {
    download_part(buffer, 0, content);
  }
  void download_part(BufferId buffer, std::int64_t byte_offset,
                     std::span<std::byte> content) const override {
    buffers_.at(buffer.index)->download(byte_offset, content);
  }

 private:
  // The graph of launches [first, last), captured when it is first wanted.
  const Graph& graph_of(std::size_t first, std::size_t last);
  std::unique_ptr<Graph> capture(std::size_t first, std::size_t last);
  RunReport check_guards() const;

  template <class Enqueue>
  double time(const Enqueue& enqueue);

  const LaunchList& list_;
  Stream stream_;
  std::vector<std::unique_ptr<GpuBuffer>> buffers_;
  std::map<std::pair<std::size_t, std::size_t>, std::unique_ptr<Graph>> graphs_;
  std::unique_ptr<GpuBuffer> delay_;
};

const Graph& GpuLaunchList::graph_of(std::size_t first, std::size_t last) {
  std::unique_ptr<Graph>& graph = graphs_[{first, last}];
  if (!graph) graph = capture(first, last);
  return *graph;
}

template <class Enqueue>
double GpuLaunchList::time(const Enqueue& enqueue) {
  static const BufferDescription kDelay{.name = "delay",
                                        .type = ElementType::float8_e4m3fn,
                                        .count = static_cast<std::int64_t>(kDelayBytes)};
  if (!delay_) delay_ = std::make_unique<GpuBuffer>(kDelay);
  GpuEvent start;
  GpuEvent stop;
  wait_for_uploads();
  for (int i = 0; i < kDelays; ++i) {
    ZERODIFF_GPU_CALL(MemsetAsync, delay_->data(), 0, kDelayBytes, stream_.get());
  }
  start.record(stream_.get());
  enqueue();
  stop.record(stream_.get());
  stop.wait();
  return stop.seconds_since(start);
}

// The mode is the thread's own: other devices' threads allocate while this one captures.
std::unique_ptr<Graph> GpuLaunchList::capture(std::size_t first, std::size_t last) {
  ZERODIFF_GPU_CALL(StreamBeginCapture, stream_.get(),
                    ZERODIFF_GPU_NAME(StreamCaptureModeThreadLocal));
  for (std::size_t i = first; i < last; ++i) {
    const Launch& launch = list_.launches()[i];
    ArgumentValues values(launch.arguments, buffers_);
    launch_gpu_kernel(gpu_kernel(launch.kernel), launch, values.data(), stream_.get());
  }
  GpuGraph graph = nullptr;
  ZERODIFF_GPU_CALL(StreamEndCapture, stream_.get(), &graph);
  return std::make_unique<Graph>(graph);
}

RunReport GpuLaunchList::check_guards() const {
  RunReport report;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const std::optional<std::int64_t> damage = buffers_[i]->first_damage();
    if (!damage) continue;
    KernelFault& fault = report.faults.emplace_back();
    fault.kind = FaultKind::guard_band;
    fault.kernel = list_.launches().empty() ? "" : list_.launches().back().kernel;
    fault.launch = list_.launches().size() - 1;
    fault.detail = "byte " + std::to_string(*damage) + " of buffer " + list_.buffers()[i].name +
                   " of " + std::to_string(list_.buffers()[i].size_bytes()) +
                   " bytes has changed, by this launch or one before";
  }
  return report;
}

void check_kernel(const LaunchList& list, std::size_t index) {
  const Launch& launch = list.launches()[index];
  const GpuFunction kernel = gpu_kernel(launch.kernel);
  if (kernel == nullptr) {
    throw Error::input(name_of_launch(list, index), "kernel", launch.kernel,
                       "a kernel of this build");
  }
  allow_lds(kernel, launch.lds_bytes);
}

std::string architecture_of(const GpuProperties& properties) {
#if defined(ZERODIFF_GPU_HIP)
  return properties.gcnArchName;
#else
  return "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
#endif
}

}  // namespace

struct GpuBackend::State {
  int wave_width = 32;
  DeviceTraits traits{.clock = "device events"};
};

namespace {

#if defined(ZERODIFF_GPU_HIP)
using GpuAttribute = hipDeviceAttribute_t;
#else
using GpuAttribute = cudaDeviceAttr;
#endif

int attribute(GpuAttribute which, int device) {
  int value = 0;
  ZERODIFF_GPU_CALL(DeviceGetAttribute, &value, which, device);
  return value;
}

// Of NVIDIA's GPUs from sm_80 on 64 or 128 lanes of a multiprocessor do a fp32 FMA each cycle.
double peak_fmas(int device) {
#if defined(ZERODIFF_GPU_HIP)
  static_cast<void>(device);
  return 0;
#else
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, device);
  const int minor = attribute(cudaDevAttrComputeCapabilityMinor, device);
  const double lanes = major == 8 && minor == 0 ? 64 : 128;
  return lanes * attribute(cudaDevAttrMultiProcessorCount, device) * 1e3 *
         attribute(cudaDevAttrClockRate, device);
#endif
}

std::int64_t cache_bytes(int device) {
#if defined(ZERODIFF_GPU_HIP)
  return attribute(hipDeviceAttributeL2CacheSize, device);
#else
  return attribute(cudaDevAttrL2CacheSize, device);
#endif
}

}  // namespace

std::string_view gpu_backend_name() {
  return kGpuBackendName;
}

std::vector<GpuInfo> list_gpus() {
  int count = 0;
  if (ZERODIFF_GPU_NAME(GetDeviceCount)(&count) != ZERODIFF_GPU_NAME(Success)) return {};
  std::vector<GpuInfo> infos;
  for (int i = 0; i < count; ++i) {
    GpuProperties properties{};
    ZERODIFF_GPU_CALL(GetDeviceProperties, &properties, i);
    GpuInfo info{properties.name, architecture_of(properties), properties.totalGlobalMem,
                 properties.warpSize};
    ZERODIFF_GPU_CALL(DriverGetVersion, &info.driver_version);
    infos.push_back(std::move(info));
  }
  return infos;
}

GpuBackend::GpuBackend(int index) : state_(std::make_unique<State>()) {
  const std::vector<GpuInfo> gpus = list_gpus();
  if (index < 0 || static_cast<std::size_t>(index) >= gpus.size()) {
    throw Error::infrastructure(std::string(kGpuBackendName) + ":" + std::to_string(index),
                                "no such GPU, " + std::to_string(gpus.size()) + " found");
  }
  ZERODIFF_GPU_CALL(SetDevice, index);
  state_->wave_width = gpus[static_cast<std::size_t>(index)].wave_width;
  state_->traits.cache_bytes = cache_bytes(index);
  state_->traits.fmas_per_second = peak_fmas(index);
}

GpuBackend::~GpuBackend() = default;

std::string_view GpuBackend::name() const {
  return kGpuBackendName;
}

int GpuBackend::wave_width() const {
  return state_->wave_width;
}

DeviceTraits GpuBackend::traits() const {
  return state_->traits;
}

std::unique_ptr<ResidentLaunchList> GpuBackend::allocate(const LaunchList& list) {
  list.check();
  for (std::size_t i = 0; i < list.launches().size(); ++i) check_kernel(list, i);
  return std::make_unique<GpuLaunchList>(list);
}

}  // namespace ZERODIFF_GPU_RUNTIME
}  // namespace zerodiff::device
