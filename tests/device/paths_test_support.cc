#include "tests/device/paths_test_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <ostream>

#include "fixtures/layer_call_checks.h"

namespace zerodiff::device {
namespace {

struct Heads {
  std::int64_t q;
  std::int64_t kv;
};

GeneratorOptions options_of(std::uint64_t seed, ElementType model_dtype, Heads heads,
                            std::int64_t tokens, std::optional<ElementType> cache_dtype) {
  GeneratorOptions options;
  options.seed = seed;
  options.model_dtype = model_dtype;
  LayerConfig& config = options.config;
  config.num_heads = heads.q;
  config.num_kv_heads = config.num_index_heads = heads.kv;
  config.rotary_dim = 64;
  config.rms_norm_eps = 1e-6F;
  config.sm_scale = 0x1.6a09e6p-4F;
  config.phase = Phase::prefill;
  config.num_tokens = tokens;
  config.kv_cache_dtype = config.index_cache_dtype = cache_dtype;
  options.k_scale = 0.07F;
  options.v_scale = 0.31F;
  options.spare_blocks = 1;
  options.max_context = 0;
  return options;
}

constexpr auto kBf16 = ElementType::bfloat16;
constexpr auto kFp16 = ElementType::float16;
constexpr auto kE4m3fnType = ElementType::float8_e4m3fn;
constexpr auto kE4m3fnuzType = ElementType::float8_e4m3fnuz;
constexpr auto kE5m2Type = ElementType::float8_e5m2;
constexpr auto kE5m2fnuzType = ElementType::float8_e5m2fnuz;

// A page16 buffer whose tail still names slots of an earlier, larger batch.
void leave_stale_tail(LayerCall& call) {
  const auto slots = call.page16_slot_mapping.as<std::int64_t>();
  const auto mapped = call.slot_mapping.as<std::int64_t>();
  std::int64_t free_slot = call.num_slots() - 1;
  for (auto t = static_cast<std::size_t>(call.config.num_tokens); t < slots.size(); ++t) {
    while (std::ranges::count(mapped, free_slot) != 0) --free_slot;
    slots[t] = 2 * (free_slot / kBlockSize) * kBlockSize + free_slot % kBlockSize;
    --free_slot;
  }
}

// V values whose quotient by the scale (63) is a tie between two fp8 codes, exactly; times the
// rounded reciprocal it is not.
void align_v_with_ties(LayerCall& call) {
  const LayerConfig& config = call.config;
  const auto rows = call.qkv.as<std::uint16_t>();
  const auto pitch = static_cast<std::size_t>(config.row_elements());
  const auto first = static_cast<std::size_t>((config.num_heads + config.num_kv_heads) * kHeadDim);
  const auto count = static_cast<std::size_t>(config.num_kv_heads * kHeadDim);
  for (std::size_t t = 0; t < static_cast<std::size_t>(call.capacity()); ++t) {
    for (std::size_t d = 0; d < count; ++d) {
      // 63 * 1.mmm1 has 11 significant bits, as many as float16.
      const auto product = static_cast<std::uint32_t>(63 * (17 + 2 * (d % 8)));
      std::uint32_t exponent = 15 + 3;
      std::uint32_t significand = product;
      while (significand < 1024) significand *= 2, --exponent;
      rows[t * pitch + first + d] =
          static_cast<std::uint16_t>(exponent << 10 | (significand & 0x3FF));
    }
  }
}

std::vector<NamedCall> fp8_calls() {
  std::vector<NamedCall> calls;
  auto fn = options_of(1, kBf16, {6, 3}, 19, kE4m3fnType);
  fn.config.scale_granularity = ScaleGranularity::head_slot;
  fn.config.batch_mode = BatchMode::graph;
  fn.capacity = 21;
  fn.max_context = 40;
  fn.empty_row_share = 0.1;
  fn.distinct_index_slots = true;
  calls.push_back({"e4m3fn_head_slot_graph", fn});

  auto fnuz = options_of(2, kBf16, {4, 2}, 17, kE4m3fnuzType);
  fnuz.config.kv_storage = KvStorage::block_contiguous;
  fnuz.config.quantize_from = QuantizeFrom::fp32;
  fnuz.config.scale_op = ScaleOp::divide;
  fnuz.config.rotary_dim = 24;
  fnuz.max_context = 200;
  fnuz.num_requests = 3;
  fnuz.v_scale = 0.001F;
  calls.push_back({"e4m3fnuz_contiguous_fp32", fnuz});

  auto e5m2 = options_of(3, kFp16, {3, 3}, 32, kE5m2Type);
  e5m2.config.overflow = Overflow::inf;
  e5m2.config.index_q_from = IndexQFrom::model_dtype;
  e5m2.config.rotary_dim = 128;
  e5m2.k_scale = 1e-5F;
  calls.push_back({"e5m2_infinity", e5m2});

  auto tiny = options_of(4, kBf16, {4, 4}, 18, kE5m2fnuzType);
  tiny.activations = ActivationKind::tiny;
  tiny.k_scale = tiny.v_scale = 1;
  tiny.num_requests = 3;
  calls.push_back({"e5m2fnuz_tiny", tiny});

  auto wide = options_of(5, kFp16, {2, 1}, 16, kE4m3fnType);
  wide.activations = ActivationKind::wide;
  wide.config.overflow = Overflow::nan;
  calls.push_back({"e4m3fn_wide_nan", wide});

  auto ties = options_of(6, kFp16, {2, 2}, 16, kE4m3fnType);
  ties.v_scale = 63;
  calls.push_back({"e4m3fn_ties", ties, &align_v_with_ties});
  return calls;
}

std::vector<NamedCall> sixteen_bit_calls() {
  std::vector<NamedCall> calls;
  auto bf16 = options_of(7, kBf16, {16, 1}, 33, std::nullopt);
  bf16.num_requests = 2;
  bf16.max_context = 9;
  calls.push_back({"bf16_prefill", bf16});

  auto stale = options_of(8, kFp16, {6, 3}, 11, std::nullopt);
  stale.config.kv_storage = KvStorage::block_contiguous;
  stale.config.batch_mode = BatchMode::graph;
  stale.capacity = 16;
  stale.with_page16_buffer = true;
  stale.max_context = 130;
  stale.distinct_index_slots = true;
  calls.push_back({"fp16_graph_stale_tail", stale, &leave_stale_tail});

  auto empty = options_of(9, kBf16, {5, 5}, 20, std::nullopt);
  empty.activations = ActivationKind::tiny;
  empty.empty_row_share = 0.3;
  empty.config.rotary_dim = 8;
  empty.config.index_cache_dtype = kE4m3fnuzType;
  empty.config.kv_storage = KvStorage::block_contiguous;
  calls.push_back({"bf16_empty_rows_mixed_caches", empty});

  auto sparse = options_of(10, kFp16, {8, 1}, 16, std::nullopt);
  sparse.min_context = 999'000;
  sparse.max_context = 999'100;
  sparse.max_context_blocks = 2;
  sparse.sparse_rope_table = true;
  sparse.empty_row_share = 0.1;
  sparse.config.kv_cache_dtype = kE4m3fnType;
  sparse.config.kv_storage = KvStorage::block_contiguous;
  calls.push_back({"fp16_long_context", sparse});

  auto skip = options_of(11, kBf16, {4, 2}, 1, std::nullopt);
  skip.config.skip_index_branch = true;
  calls.push_back({"bf16_one_row_skip_index", skip});
  return calls;
}

// Bits of NaN of a 16-bit or 8-bit type.
bool is_nan(ElementType type, const std::byte* bits) {
  std::uint16_t word = std::to_integer<std::uint8_t>(*bits);
  if (is_model_dtype(type)) std::memcpy(&word, bits, sizeof(word));
  switch (type) {
    case ElementType::bfloat16:
      return (word & 0x7FFF) > 0x7F80;
    case ElementType::float16:
      return (word & 0x7FFF) > 0x7C00;
    case ElementType::float8_e4m3fn:
      return (word & 0x7F) == 0x7F;
    case ElementType::float8_e5m2:
      return (word & 0x7F) > 0x7C;
    default:
      return word == 0x80;
  }
}

std::string tensor_difference(const Tensor& a, const Tensor& b, bool nan_is_nan) {
  if (a.present() != b.present()) return "only one is there";
  if (!a.present()) return "";
  if (a.type() != b.type() || a.shape() != b.shape()) return "type or shape";
  const std::size_t size = element_size(a.type());
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const std::byte* x = a.bytes().data() + static_cast<std::size_t>(i) * size;
    const std::byte* y = b.bytes().data() + static_cast<std::size_t>(i) * size;
    if (std::memcmp(x, y, size) == 0) continue;
    if (nan_is_nan && is_nan(a.type(), x) && is_nan(a.type(), y)) continue;
    return "element " + std::to_string(i) + " of " + zerodiff::to_string(a.shape());
  }
  return "";
}

}  // namespace

LayerCall NamedCall::make() const {
  LayerCall call = generate_call(options);
  if (edit != nullptr) edit(call);
  check_layer_call(call);
  return call;
}

void PrintTo(const NamedCall& named, std::ostream* out) {
  *out << named.name;
}

const std::vector<NamedCall>& named_calls() {
  static const std::vector<NamedCall> calls = [] {
    std::vector<NamedCall> all = fp8_calls();
    std::ranges::copy(sixteen_bit_calls(), std::back_inserter(all));
    return all;
  }();
  return calls;
}

std::string first_difference(const LayerCall& call, const Outputs& a, const Outputs& b) {
  for (const OutputField& field : kOutputFields) {
    const Tensor& x = a.*field.tensor;
    const Tensor& y = b.*field.tensor;
    // V is copied bit by bit, NaN payloads included.
    const bool copied = !call.config.kv_cache_dtype &&
                        (field.tensor == &Outputs::v_cache || field.tensor == &Outputs::kv_cache);
    const std::string difference = tensor_difference(x, y, !copied);
    if (!difference.empty()) return std::string(field.name) + ": " + difference;
  }
  return "";
}

Outputs run_without_faults(const LayerCall& call, PathKind kind, Backend& backend,
                           const PathOptions& options) {
  PathRun run = run_path(call, kind, backend, options);
  if (!run.report.ok()) {
    ADD_FAILURE() << name_of(kind) << ": " << to_string(run.report.faults.front());
  }
  return std::move(run.outputs);
}

bool row_is_stored(const LayerCall& call, std::int64_t row) {
  const auto t = static_cast<std::size_t>(row);
  return row < call.config.num_tokens && call.positions.as<std::int64_t>()[t] >= 0 &&
         physical_slot(call, row) >= 0;
}

std::int64_t physical_slot(const LayerCall& call, std::int64_t row) {
  const auto t = static_cast<std::size_t>(row);
  const LayerConfig& config = call.config;
  if (config.kv_storage == KvStorage::separate) return call.slot_mapping.as<std::int64_t>()[t];
  const Tensor& page16 = call.page16_slot_mapping;
  if (config.batch_mode == BatchMode::graph && page16.present() &&
      page16.size() == call.capacity()) {
    return page16.as<std::int64_t>()[t];
  }
  const std::int64_t slot = call.slot_mapping.as<std::int64_t>()[t];
  return slot < 0 ? slot : slot / kBlockSize * 2 * kBlockSize + slot % kBlockSize;
}

}  // namespace zerodiff::device
