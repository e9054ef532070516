#include "device/launch_list.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "fixtures/error.h"

namespace zerodiff::device {
namespace {

constexpr std::uint64_t kMaxThreadsPerBlock = 1024;
constexpr std::uint64_t kMaxBlocks = (std::uint64_t{1} << 31) - 1;

InitialContent bytes_of(const TensorView& content) {
  const auto size = static_cast<std::size_t>(content.size()) * element_size(content.type);
  return {.kind = InitialContent::Kind::bytes, .bytes = {content.data, size}};
}

void check_buffer(const BufferDescription& buffer) {
  const std::string where = "buffer " + buffer.name;
  if (buffer.count < 0 || buffer.count > LaunchList::kMaxElements) {
    throw Error::input(where, "element count", std::to_string(buffer.count),
                       "0 to " + std::to_string(LaunchList::kMaxElements));
  }
  if (buffer.role == BufferRole::input && buffer.initial.kind == InitialContent::Kind::unwritten) {
    throw Error::input(where, "initial content", "none", "some: it is an input");
  }
  const std::int64_t given = static_cast<std::int64_t>(buffer.initial.bytes.size());
  if (buffer.initial.kind == InitialContent::Kind::bytes && given != buffer.size_bytes()) {
    throw Error::input(where, "initial content", std::to_string(given) + " bytes",
                       std::to_string(buffer.size_bytes()));
  }
}

std::string to_string(const Extent3& extent) {
  return std::to_string(extent.x) + "x" + std::to_string(extent.y) + "x" + std::to_string(extent.z);
}

void check_extent(const std::string& where, std::string_view what, const Extent3& extent,
                  std::uint64_t most) {
  // A product of three 32-bit sizes may wrap around; of the first two it cannot.
  const std::uint64_t plane = std::uint64_t{extent.x} * extent.y;
  if (plane == 0 || extent.z == 0 || plane > most || plane * extent.z > most) {
    throw Error::input(where, what, to_string(extent), "1 to " + std::to_string(most) + " in all");
  }
}

void check_argument(const LaunchList& list, const std::string& where,
                    const BufferArgument& argument) {
  if (argument.buffer.index >= list.buffers().size()) {
    throw Error::input(where, "buffer", std::to_string(argument.buffer.index),
                       "less than " + std::to_string(list.buffers().size()));
  }
  const BufferDescription& buffer = list.buffer(argument.buffer);
  const std::int64_t offset = argument.byte_offset;
  const auto step = static_cast<std::int64_t>(element_size(buffer.type));
  if (offset < 0 || offset > buffer.size_bytes() || offset % step != 0) {
    throw Error::input(
        where, "byte offset into " + buffer.name, std::to_string(offset),
        "a multiple of " + std::to_string(step) + " up to " + std::to_string(buffer.size_bytes()));
  }
}

void check_launch(const LaunchList& list, std::size_t index) {
  const Launch& launch = list.launches()[index];
  const std::string where = name_of_launch(list, index);
  check_extent(where, "grid", launch.grid, kMaxBlocks);
  check_extent(where, "block", launch.block, kMaxThreadsPerBlock);
  if (launch.lds_bytes < 0) {
    throw Error::input(where, "LDS bytes", std::to_string(launch.lds_bytes), "at least 0");
  }
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    const auto* buffer = std::get_if<BufferArgument>(&launch.arguments[i]);
    if (buffer != nullptr) {
      check_argument(list, where + " argument " + std::to_string(i), *buffer);
    }
  }
}

}  // namespace

std::string_view name_of(BufferRole role) {
  switch (role) {
    case BufferRole::input:
      return "input";
    case BufferRole::output:
      return "output";
    case BufferRole::inout:
      return "inout";
    case BufferRole::scratch:
      return "scratch";
  }
  return "unknown";
}

std::string_view name_of(InitialContent::Kind kind) {
  switch (kind) {
    case InitialContent::Kind::bytes:
      return "bytes";
    case InitialContent::Kind::fill:
      return "fill";
    case InitialContent::Kind::unwritten:
      return "unwritten";
  }
  return "unknown";
}

BufferId LaunchList::add_buffer(BufferDescription description) {
  buffers_.push_back(std::move(description));
  return {static_cast<std::uint32_t>(buffers_.size() - 1)};
}

BufferId LaunchList::add_input(std::string name, const TensorView& content) {
  return add_buffer({.name = std::move(name),
                     .type = content.type,
                     .count = content.size(),
                     .role = BufferRole::input,
                     .initial = bytes_of(content)});
}

BufferId LaunchList::add_input(std::string name, Tensor&& content) {
  return add_input(std::move(name), TensorView(owned_.emplace_back(std::move(content))));
}

BufferId LaunchList::add_inout(std::string name, const TensorView& content) {
  const BufferId id = add_input(std::move(name), content);
  buffers_[id.index].role = BufferRole::inout;
  return id;
}

BufferId LaunchList::add_output(std::string name, ElementType type, std::int64_t count) {
  return add_buffer(
      {.name = std::move(name), .type = type, .count = count, .role = BufferRole::output});
}

BufferId LaunchList::add_scratch(std::string name, ElementType type, std::int64_t count) {
  return add_buffer(
      {.name = std::move(name), .type = type, .count = count, .role = BufferRole::scratch});
}

BufferId LaunchList::find(std::string_view name) const {
  const auto buffer = std::find_if(buffers_.begin(), buffers_.end(),
                                   [&](const BufferDescription& b) { return b.name == name; });
  if (buffer == buffers_.end()) {
    throw Error::input("launch list", "buffer name", std::string(name), "one of the list's");
  }
  return {static_cast<std::uint32_t>(buffer - buffers_.begin())};
}

void LaunchList::check() const {
  std::set<std::string_view> names;
  for (const BufferDescription& buffer : buffers_) {
    if (!names.insert(buffer.name).second) {
      throw Error::input("launch list", "buffer name", buffer.name + " twice", "distinct names");
    }
    check_buffer(buffer);
  }
  for (std::size_t i = 0; i < launches_.size(); ++i) check_launch(*this, i);
}

std::string name_of_launch(const LaunchList& list, std::size_t index) {
  return "launch " + std::to_string(index) + " (" + list.launches().at(index).kernel + ")";
}

}  // namespace zerodiff::device
