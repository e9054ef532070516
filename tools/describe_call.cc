#include "tools/describe_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "tools/terminal.h"

namespace zerodiff::tools {
namespace {

std::string_view short_name(ElementType model_dtype) {
  return model_dtype == ElementType::bfloat16 ? "bf16" : "fp16";
}

std::string describe_tokens(const LayerCall& call) {
  std::string text = counted(call.config.num_tokens, "token");
  if (call.capacity() != call.config.num_tokens) {
    text += fmt::format(" of {} rows", grouped(call.capacity()));
  }
  return text;
}

}  // namespace

std::string describe_call(const LayerCall& call) {
  const LayerConfig& config = call.config;
  std::vector<std::string> parts{
      fmt::format("heads {}/{}/{}", config.num_heads, config.num_kv_heads, config.num_index_heads),
      fmt::format("rotary {}", config.rotary_dim), std::string(short_name(call.model_dtype())),
      fmt::format("kv {}", cache_dtype_name(config.kv_cache_dtype))};
  if (config.skip_index_branch) {
    parts.emplace_back("no index branch");
  } else if (config.index_cache_dtype != config.kv_cache_dtype) {
    parts.push_back(fmt::format("index {}", cache_dtype_name(config.index_cache_dtype)));
  }
  if (config.kv_storage != KvStorage::separate) {
    parts.emplace_back(name_of(config.kv_storage));
  }
  parts.push_back(fmt::format("{} {}", name_of(config.batch_mode), name_of(config.phase)));
  parts.push_back(describe_tokens(call));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace zerodiff::tools
