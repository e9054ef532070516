#include "tools/bench_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include "fixtures/error.h"

namespace zerodiff::tools {
namespace {

using Index = std::int64_t;

[[noreturn]] void reject(std::string_view key, std::string_view found, std::string_view wanted) {
  throw Error::usage(fmt::format("--shape: {}={}, wanted {}", key, found, wanted));
}

Index number(std::string_view key, std::string_view text, Index least) {
  constexpr Index kMost = Index{1} << 31U;
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value >= kMost) {
    reject(key, text, fmt::format("a number from {}", least));
  }
  return value;
}

class Parser {
 public:
  Parser() {
    LayerConfig& config = shape_.options.config;
    config.num_heads = 16;
    config.num_kv_heads = 1;
    config.rotary_dim = 64;
    config.rms_norm_eps = 1e-6F;
    config.sm_scale = 0.088388346F;
    config.num_tokens = 1024;
    config.phase = Phase::prefill;
    shape_.options.max_context = 0;
    shape_.options.spare_blocks = 0;
    shape_.options.with_attention_metadata = false;
    shape_.options.k_scale = 0.25F;
    shape_.options.v_scale = 0.25F;
  }

  void take(std::string_view key, std::string_view value) {
    const auto found = keys().find(key);
    if (found == keys().end()) throw Error::usage(fmt::format("--shape: unknown key '{}'", key));
    found->second(*this, key, value);
  }

  BenchShape finish() {
    LayerConfig& config = shape_.options.config;
    if (config.num_index_heads == 0) config.num_index_heads = config.num_kv_heads;
    const bool sixteen_bits = !cache_.empty() && cache_ != "fp8";
    if (sixteen_bits && cache_ != dtype_) reject("cache", cache_, dtype_ + " (the dtype) or fp8");
    if (cache_ == "fp8") {
      config.kv_cache_dtype = ElementType::float8_e4m3fn;
      config.index_cache_dtype = ElementType::float8_e4m3fn;
    }
    shape_.options.model_dtype = dtype_ == "fp16" ? ElementType::float16 : ElementType::bfloat16;
    if (shape_.options.with_attention_metadata) shape_.slots = SlotOrder::table;
    return shape_;
  }

 private:
  using Take = std::function<void(Parser&, std::string_view, std::string_view)>;

  static Take count(Index LayerConfig::*field) {
    return [field](Parser& parser, std::string_view key, std::string_view value) {
      parser.shape_.options.config.*field = number(key, value, 1);
    };
  }

  template <class Enum>
  static Take choice(Enum LayerConfig::*field) {
    return [field](Parser& parser, std::string_view key, std::string_view value) {
      const auto found = enum_from_name<Enum>(value);
      if (!found) reject(key, value, values_of<Enum>());
      parser.shape_.options.config.*field = *found;
    };
  }

  static const std::map<std::string_view, Take>& keys() {
    static const std::map<std::string_view, Take> kKeys{
        {"tokens", count(&LayerConfig::num_tokens)},
        {"heads", count(&LayerConfig::num_heads)},
        {"kv_heads", count(&LayerConfig::num_kv_heads)},
        {"index_heads", count(&LayerConfig::num_index_heads)},
        {"rotary", count(&LayerConfig::rotary_dim)},
        {"topk", count(&LayerConfig::topk)},
        {"phase", choice(&LayerConfig::phase)},
        {"storage", choice(&LayerConfig::kv_storage)},
        {"requests", &Parser::take_requests},
        {"seed", &Parser::take_seed},
        {"context", &Parser::take_context},
        {"dtype", &Parser::take_dtype},
        {"cache", &Parser::take_cache},
        {"slots", &Parser::take_slots}};
    return kKeys;
  }

  void take_requests(std::string_view key, std::string_view value) {
    shape_.options.num_requests = number(key, value, 1);
  }
  void take_seed(std::string_view key, std::string_view value) {
    shape_.options.seed = static_cast<std::uint64_t>(number(key, value, 0));
  }
  void take_context(std::string_view key, std::string_view value) {
    if (value == "none") return;
    shape_.options.min_context = shape_.options.max_context = number(key, value, 0);
    shape_.options.with_attention_metadata = true;
  }
  void take_dtype(std::string_view key, std::string_view value) {
    if (value != "bf16" && value != "fp16") reject(key, value, "bf16 or fp16");
    dtype_ = value;
  }
  void take_cache(std::string_view key, std::string_view value) {
    if (value != "bf16" && value != "fp16" && value != "fp8") {
      reject(key, value, "bf16, fp16 or fp8");
    }
    cache_ = value;
  }
  void take_slots(std::string_view key, std::string_view value) {
    if (value != "contiguous" && value != "random") reject(key, value, "contiguous or random");
    shape_.slots = value == "random" ? SlotOrder::random : SlotOrder::contiguous;
  }

  BenchShape shape_;
  std::string dtype_ = "bf16";
  std::string cache_;
};

}  // namespace

BenchShape parse_bench_shape(std::string_view text) {
  Parser parser;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      throw Error::usage(fmt::format("--shape: '{}', wanted key=value", item));
    }
    parser.take(item.substr(0, equals), item.substr(equals + 1));
  }
  return parser.finish();
}

LayerCall make_bench_call(const BenchShape& shape) {
  LayerCall call = generate_call(shape.options);
  if (shape.slots == SlotOrder::table) return call;
  std::vector<Index> slots(static_cast<std::size_t>(call.capacity()));
  std::iota(slots.begin(), slots.end(), 0);
  if (shape.slots == SlotOrder::random) {
    std::mt19937_64 random(shape.options.seed);
    std::ranges::shuffle(slots, random);
  }
  for (Tensor* mapping : {&call.slot_mapping, &call.index_slot_mapping}) {
    std::ranges::copy(slots, mapping->as<Index>().begin());
  }
  return call;
}

}  // namespace zerodiff::tools
