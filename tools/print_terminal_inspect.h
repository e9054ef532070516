// `zerodiff inspect` for people.
#pragma once

#include <string>

#include "tools/inspect_capture.h"
#include "tools/terminal.h"

namespace zerodiff::tools {

std::string print_inspection(const Inspection& inspection, const Painter& paint);

}  // namespace zerodiff::tools
