#include "tools/open_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <charconv>
#include <optional>
#include <thread>

#include "fixtures/error.h"

#ifdef ZERODIFF_HOST_BACKEND
#include "device/host/host_backend.h"
#endif
#ifdef ZERODIFF_GPU_BACKEND
#include "device/gpu/gpu_backend.h"
#endif

namespace zerodiff::tools {
namespace {

#ifdef ZERODIFF_HOST_BACKEND
constexpr std::string_view kHost = "host";

DeviceInfo describe_host() {
  const auto memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<double>(sysconf(_SC_PAGE_SIZE)) / (1U << 30U);
  return {std::string(kHost),
          fmt::format("SIMT executor on this processor: {} threads, {:.0f} GiB, waves of 32 or 64 "
                      "(--wave), every access checked",
                      std::thread::hardware_concurrency(), memory)};
}

std::unique_ptr<device::Backend> open_host(int wave_width, int threads) {
  return std::make_unique<device::HostBackend>(
      device::ExecutorOptions{.wave_width = wave_width, .threads = static_cast<unsigned>(threads)});
}
#endif

#ifdef ZERODIFF_GPU_BACKEND
DeviceInfo describe_gpu(const device::GpuInfo& gpu, std::size_t index) {
  return {fmt::format("{}:{}", device::gpu_backend_name(), index),
          fmt::format("{} ({}): {:.0f} GiB, waves of {}, driver {}", gpu.name, gpu.architecture,
                      static_cast<double>(gpu.memory_bytes) / (1U << 30U), gpu.wave_width,
                      gpu.driver_version)};
}

// "cuda" and "cuda:0" are the first GPU. Nothing for another name.
std::optional<int> gpu_index(std::string_view name) {
  if (name == device::gpu_backend_name()) return 0;
  const std::string prefix = std::string(device::gpu_backend_name()) + ":";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  int index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return index;
}
#endif

}  // namespace

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> devices;
#ifdef ZERODIFF_GPU_BACKEND
  const std::vector<device::GpuInfo> gpus = device::list_gpus();
  for (std::size_t i = 0; i < gpus.size(); ++i) devices.push_back(describe_gpu(gpus[i], i));
#endif
#ifdef ZERODIFF_HOST_BACKEND
  devices.push_back(describe_host());
#endif
  return devices;
}

std::vector<std::string> split_devices(std::string_view list) {
  std::vector<std::string> names;
  for (std::string_view rest = list;;) {
    std::string name(rest.substr(0, rest.find(',')));
    // A bare number is another device of the kind before it.
    const bool number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    if (number && !names.empty()) {
      name = names.back().substr(0, names.back().find(':')) + ":" + name;
    }
    if (name.empty()) throw Error::usage(fmt::format("--device {}: an empty name", list));
    names.push_back(std::move(name));
    if (rest.find(',') == std::string_view::npos) break;
    rest.remove_prefix(rest.find(',') + 1);
  }
  for (const std::string& name : names) {
    if (names.size() == 1 || (name != kAutoDevice && name != kNoDevice)) continue;
    throw Error::usage(fmt::format("--device {}: {} goes alone", list, name));
  }
  return names;
}

std::string device_name(std::string_view name) {
  if (name == kNoDevice) return std::string(kReferenceDevice);
  if (name != kAutoDevice) return std::string(name);
  const std::vector<DeviceInfo> devices = list_devices();
  return devices.empty() ? std::string(kReferenceDevice) : devices.front().name;
}

std::unique_ptr<device::Backend> open_device(std::string_view name, int wave_width, int threads) {
  if (name == kNoDevice) return nullptr;
  const std::vector<DeviceInfo> devices = list_devices();
  if (name == kAutoDevice) {
    if (devices.empty()) return nullptr;
    name = devices.front().name;
  }
#ifdef ZERODIFF_GPU_BACKEND
  if (const auto index = gpu_index(name)) return std::make_unique<device::GpuBackend>(*index);
#endif
#ifdef ZERODIFF_HOST_BACKEND
  if (name == kHost) return open_host(wave_width, threads);
#endif
  std::vector<std::string_view> known{kAutoDevice, kNoDevice};
  for (const DeviceInfo& device : devices) known.push_back(device.name);
  throw Error::usage(
      fmt::format("--device {}: unknown device (there are: {})", name, fmt::join(known, ", ")));
}

}  // namespace zerodiff::tools
