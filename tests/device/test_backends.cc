#include "tests/device/test_backends.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "fixtures/error.h"
#include "tools/open_device.h"

namespace zerodiff::device {

std::vector<std::unique_ptr<Backend>> test_backends() {
  const char* wanted = std::getenv("ZERODIFF_TEST_DEVICE");
  const std::string name = wanted == nullptr ? "host" : wanted;
  std::vector<std::unique_ptr<Backend>> backends;
  for (const int wave_width : {32, 64}) {
    std::unique_ptr<Backend> backend = tools::open_device(name, wave_width, 1);
    if (!backend) throw Error::usage("ZERODIFF_TEST_DEVICE=" + name + " names no device");
    const bool emulates_waves = backend->name() == "host";
    backends.push_back(std::move(backend));
    if (!emulates_waves) break;
  }
  return backends;
}

}  // namespace zerodiff::device
