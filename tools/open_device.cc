#include "tools/open_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <thread>

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

}  // namespace

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> devices;
#ifdef ZERODIFF_HOST_BACKEND
  devices.push_back(describe_host());
#endif
  return devices;
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
#ifdef ZERODIFF_HOST_BACKEND
  if (name == kHost) return open_host(wave_width, threads);
#endif
  std::vector<std::string_view> known{kAutoDevice, kNoDevice};
  for (const DeviceInfo& device : devices) known.push_back(device.name);
  throw Error::usage(
      fmt::format("--device {}: unknown device (there are: {})", name, fmt::join(known, ", ")));
}

}  // namespace zerodiff::tools
