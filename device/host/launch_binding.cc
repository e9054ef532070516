#include "device/host/launch_binding.h"

#include <string>

#include "device/host/access_stamp.h"
#include "fixtures/error.h"

namespace zerodiff::device {
inline namespace host {
namespace {

// The type that an argument has, as BoundArgument's alternatives name it.
std::size_t alternative_of(const Argument& argument) {
  return std::visit(
      []<class T>(const T& value) {
        if constexpr (std::is_same_v<T, BufferArgument> || std::is_same_v<T, NullArgument>) {
          return BoundArgument(BoundBuffer{}).index();
        } else {
          return BoundArgument(value).index();
        }
      },
      argument);
}

std::string name_of_argument(const LaunchList& list, const Argument& argument) {
  return std::visit(
      [&]<class T>(const T& value) -> std::string {
        if constexpr (std::is_same_v<T, BufferArgument>) {
          const BufferDescription& buffer = list.buffer(value.buffer);
          return std::string(name_of(buffer.role)) + " buffer " + buffer.name + " of " +
                 std::string(zerodiff::name_of(buffer.type));
        } else if constexpr (std::is_same_v<T, NullArgument>) {
          return "null";
        } else {
          return std::string(kTypeName<T>) + " " + std::to_string(value);
        }
      },
      argument);
}

bool fits(const LaunchList& list, const Argument& argument, const Parameter& parameter) {
  if (alternative_of(argument) != parameter.alternative) return false;
  const auto* place = std::get_if<BufferArgument>(&argument);
  if (place == nullptr) return true;
  const BufferDescription& buffer = list.buffer(place->buffer);
  if (parameter.writable && buffer.role == BufferRole::input) return false;
  return parameter.holds(buffer.type);
}

void check_shape(const Launch& launch, const std::string& where, const HostKernel& kernel,
                 const ExecutorOptions& options) {
  if (launch.block.volume() > kernel.max_threads) {
    throw Error::input(where, "threads of a block", std::to_string(launch.block.volume()),
                       "at most " + std::to_string(kernel.max_threads));
  }
  if (launch.grid.volume() > kMaxBlocks) {
    throw Error::input(where, "blocks", std::to_string(launch.grid.volume()),
                       "at most " + std::to_string(kMaxBlocks) + " on the host");
  }
  if (launch.lds_bytes > options.lds_limit) {
    throw Error::input(where, "LDS bytes", std::to_string(launch.lds_bytes),
                       "at most " + std::to_string(options.lds_limit));
  }
}

}  // namespace

void check_binding(const LaunchList& list, std::size_t index, const KernelRegistry& kernels,
                   const ExecutorOptions& options) {
  const Launch& launch = list.launches()[index];
  const std::string where = name_of_launch(list, index);
  const HostKernel* kernel = kernels.find(launch.kernel);
  if (kernel == nullptr) throw Error::input(where, "kernel", launch.kernel, "a host kernel");
  check_shape(launch, where, *kernel, options);
  if (launch.arguments.size() != kernel->parameters.size()) {
    throw Error::input(where, "arguments", std::to_string(launch.arguments.size()),
                       std::to_string(kernel->parameters.size()));
  }
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    if (fits(list, launch.arguments[i], kernel->parameters[i])) continue;
    throw Error::input(where, "argument " + std::to_string(i),
                       name_of_argument(list, launch.arguments[i]),
                       std::string(kernel->parameters[i].type));
  }
}

Binding bind(const Launch& launch, const KernelRegistry& kernels,
             std::vector<std::unique_ptr<HostBuffer>>& buffers) {
  const HostKernel& kernel = *kernels.find(launch.kernel);
  Binding binding;
  binding.written.resize(buffers.size());
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    const auto* place = std::get_if<BufferArgument>(&launch.arguments[i]);
    if (place != nullptr && kernel.parameters[i].writable) {
      binding.written[place->buffer.index] = true;
    }
  }
  const auto bound = [&]<class T>(const T& value) -> BoundArgument {
    if constexpr (std::is_same_v<T, BufferArgument>) {
      HostBuffer& buffer = *buffers[value.buffer.index];
      return BoundBuffer{buffer.region(binding.written[value.buffer.index]), buffer.base(),
                         value.byte_offset};
    } else if constexpr (std::is_same_v<T, NullArgument>) {
      return BoundBuffer{&absent_buffer(), nullptr, 0};
    } else {
      return value;
    }
  };
  std::vector<BoundArgument> arguments;
  for (const Argument& argument : launch.arguments) {
    arguments.push_back(std::visit(bound, argument));
  }
  binding.kernel = kernel.bind(arguments);
  return binding;
}

}  // namespace host
}  // namespace zerodiff::device
