// A launch list on disk with every buffer before and after: what another tool needs to run the same
// launches from a code object and to compare. docs/recording.md describes the files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "device/backend.h"
#include "device/launch_list.h"

namespace zerodiff::device {

// Runs the list once on the backend and writes `directory`, which must not exist: it appears only
// when it is complete. After a faulty run nothing is written. Throws Error: what Backend::allocate
// throws; usage if the directory exists; infrastructure if it cannot be written.
RunReport record(Backend& backend, const LaunchList& list, const std::filesystem::path& directory);

// A recording read back. The list's initial contents lie in `before`, so it can be run at once.
struct Recording {
  std::string backend;  // that ran it
  int wave_width = 0;
  LaunchList list{};
  std::vector<std::vector<std::byte>> before{};  // in the order of list.buffers()
  std::vector<std::vector<std::byte>> after{};
};

// Throws Error (input) for an index that breaks the format, and for files that are missing, of
// another size or of another digest.
Recording read_recording(const std::filesystem::path& directory);

}  // namespace zerodiff::device
