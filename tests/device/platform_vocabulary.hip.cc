// The translation unit that GPU compilers get.
#include "tests/device/platform_vocabulary.hip.h"
