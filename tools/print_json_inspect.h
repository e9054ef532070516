// `zerodiff inspect` as JSON (docs/report.schema.json).
#pragma once

#include <string>

#include "tools/inspect_capture.h"

namespace zerodiff::tools {

// One JSON document, with a final newline.
std::string print_json(const Inspection& inspection);

}  // namespace zerodiff::tools
