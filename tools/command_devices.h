// `zerodiff devices`: where kernels can run.
#pragma once

#include "tools/exit_code.h"

namespace zerodiff::tools {

// One line a device; infrastructure's exit code in a build without any.
ExitCode run_devices();

}  // namespace zerodiff::tools
