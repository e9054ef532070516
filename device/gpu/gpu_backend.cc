#include "device/gpu/gpu_backend.h"

#include <cassert>
#include <cstring>
#include <utility>

#include "device/gpu/gpu_buffer.h"
#include "device/gpu/gpu_kernels.h"
#include "device/gpu/gpu_runtime.h"

namespace zerodiff::device {
inline namespace ZERODIFF_GPU_RUNTIME {
namespace {

class Stream {
 public:
  Stream() { ZERODIFF_GPU_CALL(StreamCreate, &stream_); }
  ~Stream() { static_cast<void>(ZERODIFF_GPU_NAME(StreamDestroy)(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  GpuStream get() const { return stream_; }

 private:
  GpuStream stream_ = nullptr;
};

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
      ZERODIFF_GPU_CALL(DeviceSynchronize);
      if (!graph_) capture();
      graph_->launch(stream_.get());
      ZERODIFF_GPU_CALL(StreamSynchronize, stream_.get());
    }
    return check_guards();
  }

  void download(BufferId buffer, std::span<std::byte> content) const override {
    download_part(buffer, 0, content);
  }
  void download_part(BufferId buffer, std::int64_t byte_offset,
                     std::span<std::byte> content) const override {
    buffers_.at(buffer.index)->download(byte_offset, content);
  }

 private:
  void capture();
  RunReport check_guards() const;

  const LaunchList& list_;
  Stream stream_;
  std::vector<std::unique_ptr<GpuBuffer>> buffers_;
  std::unique_ptr<Graph> graph_;
};

void GpuLaunchList::capture() {
  ZERODIFF_GPU_CALL(StreamBeginCapture, stream_.get(), ZERODIFF_GPU_NAME(StreamCaptureModeGlobal));
  for (const Launch& launch : list_.launches()) {
    ArgumentValues values(launch.arguments, buffers_);
    launch_gpu_kernel(gpu_kernel(launch.kernel), launch, values.data(), stream_.get());
  }
  GpuGraph graph = nullptr;
  ZERODIFF_GPU_CALL(StreamEndCapture, stream_.get(), &graph);
  graph_ = std::make_unique<Graph>(graph);
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
};

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
}

GpuBackend::~GpuBackend() = default;

std::string_view GpuBackend::name() const {
  return kGpuBackendName;
}

int GpuBackend::wave_width() const {
  return state_->wave_width;
}

std::unique_ptr<ResidentLaunchList> GpuBackend::allocate(const LaunchList& list) {
  list.check();
  for (std::size_t i = 0; i < list.launches().size(); ++i) check_kernel(list, i);
  return std::make_unique<GpuLaunchList>(list);
}

}  // namespace ZERODIFF_GPU_RUNTIME
}  // namespace zerodiff::device
