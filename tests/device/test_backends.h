// The devices that the zero-difference suites run on.
#pragma once

#include <memory>
#include <vector>

#include "device/backend.h"

namespace zerodiff::device {

// The host backend with waves of 32 and of 64 lanes, one thread each; or the one device that the
// environment variable ZERODIFF_TEST_DEVICE names, spelled as --device spells it ("cuda:0"), so that
// a suite runs unchanged on a GPU. Throws Error (usage) for a name that is no device of this build.
std::vector<std::unique_ptr<Backend>> test_backends();

}  // namespace zerodiff::device
