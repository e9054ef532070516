// Results that came back from running a recording elsewhere, held against the recorded ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "device/backend.h"
#include "device/launch_list.h"

namespace zerodiff::device {

// One buffer of a recording.
struct BufferCheck {
  enum class State : std::uint8_t {
    identical,
    nan_payloads,  // equal but for the payloads of NaNs, which chips choose themselves
    different,
    not_compared,  // scratch, or an input that did not come back
  };

  std::string name;
  std::string file;  // of the results: "003_k_cache.result.bin"
  BufferRole role = BufferRole::input;
  ElementType type = ElementType::float32;
  std::int64_t elements = 0;
  State state = State::not_compared;
  std::int64_t different = 0;     // elements
  std::int64_t nan_payloads = 0;  // elements that are NaN on both sides with other bits
  // The first element that differs (or has another payload, if none differs): its index, and bits.
  std::int64_t first = 0;
  std::uint64_t found = 0;
  std::uint64_t wanted = 0;
  std::vector<std::size_t> launches;  // that take the buffer as an argument, ascending
};

std::string_view name_of(BufferCheck::State state);

struct RecordingCheck {
  std::vector<BufferCheck> buffers;   // in the order of the recording
  std::vector<std::string> launches;  // "launch 3 (index_topk)"

  // Whether no buffer is different.
  bool ok() const;
  // The launches of the different buffer that is used earliest, so where to look first; empty if
  // none is different.
  const std::vector<std::size_t>* suspects() const;
};

// Reads the recording and, beside it, NNN_NAME.result.bin of each buffer: needed for outputs and
// inouts, compared for inputs that are there (nothing may write them), never for scratch. Throws
// Error: input for a recording that read_recording refuses, and for results that are missing or of
// another size.
RecordingCheck check_recording(const std::filesystem::path& directory);

// Runs a recording on a backend and writes the results beside it, as check_recording reads them;
// older ones are replaced. After a faulty run nothing is written. Throws Error: what read_recording
// and Backend::allocate throw; infrastructure if a file cannot be written.
RunReport run_recording(Backend& backend, const std::filesystem::path& directory);

}  // namespace zerodiff::device
