#include "device/recording_check.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <variant>

#include "device/recording.h"
#include "device/recording_files.h"
#include "fixtures/error.h"

namespace zerodiff::device {
namespace {

namespace fs = std::filesystem;

// How NaN is told from other bits: magnitudes above this one, or one code alone.
struct NanRule {
  std::uint64_t magnitude_mask = 0;
  std::uint64_t largest = 0;
  bool single = false;  // fnuz: one code, so that no payload exists
};

NanRule nan_rule(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return {0x7FFFFFFF, 0x7F800000};
    case ElementType::bfloat16:
      return {0x7FFF, 0x7F80};
    case ElementType::float16:
      return {0x7FFF, 0x7C00};
    case ElementType::float8_e4m3fn:
      return {0x7F, 0x7E};
    case ElementType::float8_e5m2:
      return {0x7F, 0x7C};
    default:
      return {0, 0, true};
  }
}

bool is_nan(const NanRule& rule, std::uint64_t bits) {
  return !rule.single && (bits & rule.magnitude_mask) > rule.largest;
}

std::uint64_t bits_at(std::span<const std::byte> bytes, std::size_t element, std::size_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + element * size, size);
  return bits;
}

void note(BufferCheck& check, std::int64_t& count, std::int64_t element, std::uint64_t found,
          std::uint64_t wanted) {
  if (count++ > 0) return;
  check.first = element;
  check.found = found;
  check.wanted = wanted;
}

void compare(BufferCheck& check, std::span<const std::byte> found,
             std::span<const std::byte> wanted) {
  check.state = BufferCheck::State::identical;
  if (std::ranges::equal(found, wanted)) return;
  const std::size_t size = element_size(check.type);
  const NanRule rule = nan_rule(check.type);
  for (std::int64_t i = 0; i < check.elements; ++i) {
    const std::uint64_t a = bits_at(found, static_cast<std::size_t>(i), size);
    const std::uint64_t b = bits_at(wanted, static_cast<std::size_t>(i), size);
    if (a == b) continue;
    if (!is_nan(rule, a) || !is_nan(rule, b)) {
      note(check, check.different, i, a, b);
    } else if (check.different == 0) {
      note(check, check.nan_payloads, i, a, b);
    } else {
      ++check.nan_payloads;
    }
  }
  check.state =
      check.different > 0 ? BufferCheck::State::different : BufferCheck::State::nan_payloads;
}

std::vector<std::size_t> launches_of(const LaunchList& list, BufferId buffer) {
  std::vector<std::size_t> launches;
  for (std::size_t i = 0; i < list.launches().size(); ++i) {
    const auto takes = [&](const Argument& argument) {
      const auto* place = std::get_if<BufferArgument>(&argument);
      return place != nullptr && place->buffer == buffer;
    };
    if (std::ranges::any_of(list.launches()[i].arguments, takes)) launches.push_back(i);
  }
  return launches;
}

std::vector<std::byte> read_result(const fs::path& file, std::int64_t size) {
  std::vector<std::byte> bytes = read_recording_file(file);
  if (std::cmp_not_equal(bytes.size(), size)) {
    throw Error::input(file.string(), "size", std::to_string(bytes.size()) + " bytes",
                       std::to_string(size));
  }
  return bytes;
}

BufferCheck check_buffer(const fs::path& directory, const Recording& recording,
                         std::uint32_t index) {
  const BufferDescription& buffer = recording.list.buffer({index});
  BufferCheck check{.name = buffer.name,
                    .file = recording_file_name(index, buffer.name, "result"),
                    .role = buffer.role,
                    .type = buffer.type,
                    .elements = buffer.count,
                    .launches = launches_of(recording.list, {index})};
  const fs::path file = directory / check.file;
  if (buffer.role == BufferRole::scratch) return check;
  if (buffer.role == BufferRole::input && !fs::exists(file)) return check;
  compare(check, read_result(file, buffer.size_bytes()), recording.after[index]);
  return check;
}

}  // namespace

std::string_view name_of(BufferCheck::State state) {
  switch (state) {
    case BufferCheck::State::identical:
      return "identical";
    case BufferCheck::State::nan_payloads:
      return "nan_payloads";
    case BufferCheck::State::different:
      return "different";
    case BufferCheck::State::not_compared:
      return "not_compared";
  }
  return "unknown";
}

bool RecordingCheck::ok() const {
  return std::ranges::none_of(buffers, [](const BufferCheck& buffer) {
    return buffer.state == BufferCheck::State::different;
  });
}

const std::vector<std::size_t>* RecordingCheck::suspects() const {
  const std::vector<std::size_t>* earliest = nullptr;
  for (const BufferCheck& buffer : buffers) {
    if (buffer.state != BufferCheck::State::different || buffer.launches.empty()) continue;
    if (earliest == nullptr || buffer.launches < *earliest) earliest = &buffer.launches;
  }
  return earliest;
}

RecordingCheck check_recording(const fs::path& directory) {
  const Recording recording = read_recording(directory);
  RecordingCheck check;
  for (std::size_t i = 0; i < recording.list.launches().size(); ++i) {
    check.launches.push_back(name_of_launch(recording.list, i));
  }
  for (std::uint32_t i = 0; i < recording.list.buffers().size(); ++i) {
    check.buffers.push_back(check_buffer(directory, recording, i));
  }
  return check;
}

RunReport run_recording(Backend& backend, const fs::path& directory) {
  const Recording recording = read_recording(directory);
  const auto resident = backend.allocate(recording.list);
  resident->upload();
  RunReport report = resident->run();
  if (!report.ok()) return report;
  for (std::uint32_t i = 0; i < recording.list.buffers().size(); ++i) {
    const BufferDescription& buffer = recording.list.buffer({i});
    if (buffer.role == BufferRole::scratch) continue;
    std::vector<std::byte> bytes(static_cast<std::size_t>(buffer.size_bytes()));
    resident->download({i}, bytes);
    write_recording_file(directory / recording_file_name(i, buffer.name, "result"), bytes);
  }
  return report;
}

}  // namespace zerodiff::device
