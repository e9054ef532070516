// Two stored paths held against each other: the flow behind `zerodiff diff`.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "fixtures/capture.h"
#include "tools/case_result.h"

namespace zerodiff::tools {

// A path in a file, as "FILE:PATH" names it.
struct StoredPath {
  std::filesystem::path file;
  std::string path;

  std::string label() const { return file.string() + ":" + path; }
};

// Splits at the last colon. Throws Error (kUsage) if file or path is missing.
StoredPath parse_stored_path(std::string_view argument);

struct DiffOptions {
  int threads = 0;
  ReadOptions read;
};

// Every output of either path is one gating comparison: outputs both hold are compared bit for bit,
// one that a single path holds is absent. The case FAILED unless all are identical. Coordinates
// follow the call of `expected`; inputs in which the two calls differ are a warning.
// Throws Error (kInput) for an invalid capture, a path that is not there, calls of different
// configuration or shape, or paths without an output in common.
CaseResult diff_paths(const StoredPath& expected, const StoredPath& got,
                      const DiffOptions& options);

}  // namespace zerodiff::tools
