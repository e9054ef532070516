#include "tools/attribute_text.h"

#include <fmt/format.h>

#include "tools/terminal.h"

namespace zerodiff::tools {

std::string to_text(const AttributeValue& value) {
  struct Visitor {
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(float number) const { return fmt::format("{}", number); }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(const std::string& text) const { return printable(text); }
  };
  return std::visit(Visitor{}, value);
}

}  // namespace zerodiff::tools
