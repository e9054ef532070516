// Attributes of a capture as people read them.
#pragma once

#include <string>

#include "fixtures/capture_attributes.h"

namespace zerodiff::tools {

// "true", "64", "1e-06", the text itself without control characters.
std::string to_text(const AttributeValue& value);

}  // namespace zerodiff::tools
