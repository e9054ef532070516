// The devices that this build can run kernels on, by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/backend.h"

namespace zerodiff::tools {

struct DeviceInfo {
  std::string name;         // as --device takes it: "host"
  std::string description;  // one line: what it is, memory, wave width
};

std::vector<DeviceInfo> list_devices();
// The GPU runtimes of this build that have no GPU here: "hip", and why.
std::vector<DeviceInfo> list_missing_devices();

// How --device is spelled: "auto" (the first of list_devices), "none", or a name of it.
inline constexpr std::string_view kAutoDevice = "auto";
inline constexpr std::string_view kNoDevice = "none";
// What reports say where only the reference ran.
inline constexpr std::string_view kReferenceDevice = "cpu";

// The device that open_device would open, "cpu" where it opens none.
std::string device_name(std::string_view name);

// The devices that a list names: "cuda:0,1" is cuda:0 and cuda:1, "cuda:0,host" is both of these.
// One name is a list of one. Names are not looked up. Throws Error (kUsage) for a list with an
// empty name, or with "none" or "auto" beside others.
std::vector<std::string> split_devices(std::string_view list);

// nullptr for "none", and for "auto" in a build without any device. wave_width: 32 or 64, of the
// host device only. threads: of the host device; 0 means one for each core.
// Throws Error: kUsage for a name that this build does not know (the message lists those it does),
// kInfrastructure for a GPU that is not there.
std::unique_ptr<device::Backend> open_device(std::string_view name, int wave_width, int threads);

}  // namespace zerodiff::tools
