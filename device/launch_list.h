// A list of kernel launches over named buffers: what one path of a layer call is on a device, and
// what a graph replays. It can run any number of times on any Backend (backend.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "device/grid.h"
#include "fixtures/element_type.h"
#include "fixtures/tensor.h"

namespace zerodiff::device {

enum class BufferRole : std::uint8_t {
  input,    // no launch writes it
  output,   // a result
  inout,    // has content before, and is a result
  scratch,  // between launches of the list; its content afterwards is nobody's business
};

std::string_view name_of(BufferRole role);

// What a buffer holds before the first launch.
struct InitialContent {
  enum class Kind : std::uint8_t {
    bytes,      // as given
    fill,       // every byte `fill`
    unwritten,  // nothing that a kernel may read; the bytes are `fill`, so that results which
                // nobody wrote are recognisable
  };
  Kind kind = Kind::unwritten;
  std::span<const std::byte> bytes{};
  // A pool filled with 0 is mapped but not touched, whatever its size.
  std::byte fill{0xCB};
};

std::string_view name_of(InitialContent::Kind kind);

struct BufferDescription {
  std::string name;  // unique in the list; appears in reports and file names
  ElementType type = ElementType::float32;
  std::int64_t count = 0;  // in elements
  BufferRole role = BufferRole::input;
  InitialContent initial{};

  std::int64_t size_bytes() const { return count * static_cast<std::int64_t>(element_size(type)); }
};

// An index into LaunchList::buffers().
struct BufferId {
  std::uint32_t index = 0;
  friend bool operator==(const BufferId&, const BufferId&) = default;
};

// A pointer argument: to `byte_offset` bytes after the start of a buffer (a multiple of its element
// size), or null.
struct BufferArgument {
  BufferId buffer;
  std::int64_t byte_offset = 0;
  friend bool operator==(const BufferArgument&, const BufferArgument&) = default;
};
struct NullArgument {
  friend bool operator==(const NullArgument&, const NullArgument&) = default;
};

// The alternatives of scalars are exactly the kernel's parameter types: say int64_t{n} where the
// kernel takes an int64_t.
using Argument =
    std::variant<BufferArgument, NullArgument, std::int32_t, std::uint32_t, std::int64_t, float>;

struct Launch {
  std::string kernel;
  Extent3 grid{};
  Extent3 block{};
  std::int64_t lds_bytes = 0;  // dynamic LDS
  std::vector<Argument> arguments{};
};

class LaunchList {
 public:
  static constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;  // of a buffer

  LaunchList() = default;
  LaunchList(const LaunchList&) = delete;
  LaunchList& operator=(const LaunchList&) = delete;
  LaunchList(LaunchList&&) = default;
  LaunchList& operator=(LaunchList&&) = default;

  // Bytes of a description, and of a TensorView, are not copied: they must stay as they are for as
  // long as the list is uploaded from. A Tensor given as an rvalue moves into the list.
  BufferId add_buffer(BufferDescription description);
  void set_initial(BufferId id, InitialContent initial) { buffers_.at(id.index).initial = initial; }
  BufferId add_input(std::string name, const TensorView& content);
  BufferId add_input(std::string name, Tensor&& content);
  BufferId add_inout(std::string name, const TensorView& content);
  BufferId add_output(std::string name, ElementType type, std::int64_t count);   // unwritten
  BufferId add_scratch(std::string name, ElementType type, std::int64_t count);  // unwritten

  void add_launch(Launch launch) { launches_.push_back(std::move(launch)); }

  const std::vector<BufferDescription>& buffers() const { return buffers_; }
  const std::vector<Launch>& launches() const { return launches_; }
  const BufferDescription& buffer(BufferId id) const { return buffers_.at(id.index); }
  // Throws Error (input) if there is no buffer of this name.
  BufferId find(std::string_view name) const;

  // Throws Error (input), with the launch or buffer, for anything that no backend could run: names
  // twice, contents of a wrong size, empty or oversized grids and blocks, arguments outside of
  // their buffer or between two elements.
  void check() const;

 private:
  std::vector<BufferDescription> buffers_;
  std::vector<Launch> launches_;
  std::deque<Tensor> owned_;
};

// "launch 3 (fused_insert)", for messages.
std::string name_of_launch(const LaunchList& list, std::size_t index);

}  // namespace zerodiff::device
