#include "tests/device/attention_test_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/host/host_backend.h"
#include "device/kernels/number_formats.hip.h"
#include "device/paths/run_path.h"

namespace zerodiff::device {
namespace {

std::string all_faults(const RunReport& report) {
  std::string text;
  for (const KernelFault& fault : report.faults) text += to_string(fault) + "\n";
  return text;
}

void zero(Tensor& tensor) {
  if (tensor.present()) std::ranges::fill(tensor.bytes(), std::byte{0});
}

bool is_nan(ElementType type, const std::byte* bits) {
  if (type == ElementType::float32) {
    float value = 0;
    std::memcpy(&value, bits, sizeof(value));
    return std::isnan(value);
  }
  if (!is_model_dtype(type)) return false;
  std::uint16_t value = 0;
  std::memcpy(&value, bits, sizeof(value));
  return std::isnan(model_value(type, value));
}

std::string tensor_difference(const Tensor& a, const Tensor& b) {
  if (a.present() != b.present()) return "only one is there";
  if (!a.present()) return "";
  if (a.type() != b.type() || a.shape() != b.shape()) return "type or shape";
  const std::size_t size = element_size(a.type());
  for (std::size_t i = 0; i < a.size_bytes(); i += size) {
    const std::byte* x = a.bytes().data() + i;
    const std::byte* y = b.bytes().data() + i;
    if (std::memcmp(x, y, size) == 0 || (is_nan(a.type(), x) && is_nan(b.type(), y))) continue;
    return "element " + std::to_string(i / size) + " of " + zerodiff::to_string(a.shape());
  }
  return "";
}

void store(Tensor& tensor, std::int64_t element, double value) {
  const std::uint16_t bits = bits_of(tensor.type(), value);
  const std::size_t size = element_size(tensor.type());
  std::memcpy(tensor.bytes().data() + static_cast<std::size_t>(element) * size, &bits, size);
}

Tensor Outputs::*kv_tensor(const LayerCall& call, Plane plane) {
  if (call.config.kv_storage == KvStorage::block_contiguous) return &Outputs::kv_cache;
  return plane == Plane::k ? &Outputs::k_cache : &Outputs::v_cache;
}

std::int64_t kv_element(const LayerCall& call, Plane plane, std::int64_t slot, std::int64_t kv_head,
                        std::int64_t dim) {
  const std::int64_t x = call.cache_vector_width();
  const std::int64_t offset = slot % kPageSize;
  std::int64_t page = slot / kPageSize;
  if (call.config.kv_storage == KvStorage::block_contiguous) {
    page += slot / kBlockSize * kPagesPerBlock + (plane == Plane::v ? kPagesPerBlock : 0);
  }
  const std::int64_t head = (page * call.config.num_kv_heads + kv_head) * kHeadDim * kPageSize;
  return head + (plane == Plane::k ? dim / x * kPageSize * x + offset * x + dim % x
                                   : offset / x * kHeadDim * x + dim * x + offset % x);
}

}  // namespace

GeneratorOptions attention_options(std::int64_t num_heads, std::int64_t num_kv_heads,
                                   std::uint64_t seed) {
  GeneratorOptions options;
  options.seed = seed;
  options.config.num_heads = num_heads;
  options.config.num_kv_heads = options.config.num_index_heads = num_kv_heads;
  options.config.rotary_dim = 64;
  options.config.rms_norm_eps = 1e-6F;
  options.config.sm_scale = 0x1.6a09e6p-4F;
  options.config.topk = 4;
  options.config.phase = Phase::prefill;
  options.config.num_tokens = 5;
  options.k_scale = 0.07F;
  options.v_scale = 0.31F;
  options.max_context = 600;
  return options;
}

AttentionCase attention_case(const GeneratorOptions& options) {
  AttentionCase made;
  made.call = generate_call(options);
  HostBackend backend({.threads = 1});
  PathRun run = run_path(made.call, PathKind::fused, backend);
  EXPECT_TRUE(run.report.ok()) << all_faults(run.report);
  made.inserted = std::move(run.outputs);
  return made;
}

AttentionCase zero_case(const GeneratorOptions& options) {
  AttentionCase made = attention_case(options);
  for (const OutputField& field : kOutputFields) zero(made.inserted.*field.tensor);
  return made;
}

Outputs run_stages(const AttentionCase& of, PathKind kind, const AttentionOptions& options,
                   const ExecutorOptions& executor) {
  HostBackend backend(executor);
  PathRun run = run_attention_stages(of.call, of.inserted, kind, backend, options);
  EXPECT_TRUE(run.report.ok()) << all_faults(run.report);
  return std::move(run.outputs);
}

std::string attention_difference(const Outputs& a, const Outputs& b) {
  for (Tensor Outputs::*field :
       {&Outputs::topk_index, &Outputs::sparse_block_table, &Outputs::sparse_context_lens,
        &Outputs::attn_output, &Outputs::index_score}) {
    const std::string difference = tensor_difference(a.*field, b.*field);
    if (difference.empty()) continue;
    const auto named = std::ranges::find(kOutputFields, field, &OutputField::tensor);
    return std::string(named->name) + ": " + difference;
  }
  return "";
}

std::int64_t request_of(const LayerCall& call, std::int64_t row) {
  const auto starts = call.query_start_loc.as<std::int32_t>();
  return std::upper_bound(starts.begin(), starts.end(), row) - starts.begin() - 1;
}

std::int64_t slot_of(const LayerCall& call, std::int64_t request, std::int64_t position) {
  const auto table = call.block_table.as<std::int32_t>();
  const std::int64_t column = request * call.block_table.dim(1) + position / kBlockSize;
  return table[static_cast<std::size_t>(column)] * kBlockSize + position % kBlockSize;
}

void set_kv(AttentionCase& of, Plane plane, std::int64_t slot, std::int64_t kv_head,
            std::int64_t dim, double value) {
  store(of.inserted.*kv_tensor(of.call, plane), kv_element(of.call, plane, slot, kv_head, dim),
        value);
}

void copy_kv(const AttentionCase& from, AttentionCase& to, Plane plane, std::int64_t slot,
             std::int64_t kv_head, std::int64_t dim) {
  Tensor Outputs::*const tensor = kv_tensor(from.call, plane);
  const std::size_t size = element_size(from.call.kv_cache_type());
  const std::int64_t element = kv_element(from.call, plane, slot, kv_head, dim);
  const std::size_t place = static_cast<std::size_t>(element) * size;
  std::memcpy((to.inserted.*tensor).bytes().data() + place,
              (from.inserted.*tensor).bytes().data() + place, size);
}

void set_index_k(AttentionCase& of, std::int64_t slot, std::int64_t dim, double value) {
  store(of.inserted.index_cache, slot * kHeadDim + dim, value);
}

void set_q(AttentionCase& of, std::int64_t row, std::int64_t head, std::int64_t dim, double value) {
  store(of.inserted.q, (row * of.call.config.num_heads + head) * kHeadDim + dim, value);
}

void set_index_q(AttentionCase& of, std::int64_t row, std::int64_t head, std::int64_t dim,
                 double value) {
  store(of.inserted.index_q, (row * of.call.config.num_kv_heads + head) * kHeadDim + dim, value);
}

std::uint16_t bits_of(ElementType type, double value) {
  const auto number = static_cast<float>(value);
  const auto fp8 = [&](std::int32_t format) {
    return static_cast<std::uint16_t>(make_fp8_encoder(format, 0).encode(number));
  };
  switch (type) {
    case ElementType::bfloat16:
      return BFloat16::encode(number);
    case ElementType::float16:
      return Float16::encode(number);
    case ElementType::float8_e4m3fn:
      return fp8(kE4m3fn);
    case ElementType::float8_e4m3fnuz:
      return fp8(kE4m3fnuz);
    case ElementType::float8_e5m2:
      return fp8(kE5m2);
    default:
      return fp8(kE5m2fnuz);
  }
}

float model_value(ElementType type, std::uint16_t bits) {
  return type == ElementType::bfloat16 ? BFloat16::decode(bits) : Float16::decode(bits);
}

float output_at(const LayerCall& call, const Outputs& outputs, std::int64_t row, std::int64_t head,
                std::int64_t dim) {
  const std::int64_t element = (row * call.config.num_heads + head) * kHeadDim + dim;
  const auto codes = outputs.attn_output.as<std::uint16_t>();
  return model_value(call.model_dtype(), codes[static_cast<std::size_t>(element)]);
}

}  // namespace zerodiff::device
