#include "tools/open_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <charconv>
#include <optional>
#include <thread>

#include "device/gpu/gpu_platform.h"
#include "fixtures/error.h"

#ifdef ZERODIFF_HOST_BACKEND
#include "device/host/host_backend.h"
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

DeviceInfo describe_gpu(const device::GpuPlatform& platform, std::size_t index) {
  const device::GpuInfo& gpu = platform.gpus[index];
  return {fmt::format("{}:{}", platform.name, index),
          fmt::format("{} ({}): {:.0f} GiB, waves of {}, driver {}, code for {}", gpu.name,
                      gpu.architecture, static_cast<double>(gpu.memory_bytes) / (1U << 30U),
                      gpu.wave_width, gpu.driver_version, platform.code)};
}

// "cuda" and "cuda:0" are the first GPU. Nothing for another name.
std::optional<int> gpu_index(std::string_view name, std::string_view platform) {
  if (name == platform) return 0;
  if (!name.starts_with(std::string(platform) + ":")) return std::nullopt;
  name.remove_prefix(platform.size() + 1);
  int index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error != std::errc() || end != name.data() + name.size() || index < 0) return std::nullopt;
  return index;
}

// Null if no runtime of this build has that name.
std::unique_ptr<device::Backend> open_gpu(std::string_view name) {
  for (const device::GpuPlatform& platform : device::gpu_platforms()) {
    const auto index = gpu_index(name, platform.name);
    if (!index) continue;
    if (platform.gpus.empty()) {
      throw Error::infrastructure(fmt::format("--device {}", name),
                                  fmt::format("no GPU found: {}", platform.trouble));
    }
    return platform.open(*index);
  }
  return nullptr;
}

}  // namespace

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> devices;
  for (const device::GpuPlatform& platform : device::gpu_platforms()) {
    for (std::size_t i = 0; i < platform.gpus.size(); ++i) {
      devices.push_back(describe_gpu(platform, i));
    }
  }
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
      name.insert(0, names.back().substr(0, names.back().find(':')) + ":");
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

std::vector<DeviceInfo> list_missing_devices() {
  std::vector<DeviceInfo> missing;
  for (const device::GpuPlatform& platform : device::gpu_platforms()) {
    if (!platform.gpus.empty()) continue;
    missing.push_back(
        {std::string(platform.name), fmt::format("no GPU found ({}); this build has code for {}",
                                                 platform.trouble, platform.code)});
  }
  return missing;
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
  if (name == kAutoDevice && devices.empty()) return nullptr;
  if (name == kAutoDevice) name = devices.front().name;
  if (auto gpu = open_gpu(name)) return gpu;
#ifdef ZERODIFF_HOST_BACKEND
  if (name == kHost) return open_host(wave_width, threads);
#endif
  std::vector<std::string_view> known{kAutoDevice, kNoDevice};
  for (const DeviceInfo& device : devices) known.push_back(device.name);
  throw Error::usage(
      fmt::format("--device {}: unknown device (there are: {})", name, fmt::join(known, ", ")));
}

}  // namespace zerodiff::tools
