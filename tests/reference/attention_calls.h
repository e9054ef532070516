// Hand-made layer calls for the tests of the stages after insertion, and the elements of their
// tensors by meaning.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "fixtures/generator.h"
#include "fixtures/layer_call.h"

namespace zerodiff::test {

// The types and layouts that attention reads.
struct CallKind {
  const char* name = "";
  ElementType model_dtype = ElementType::bfloat16;
  std::optional<ElementType> kv_cache_dtype = std::nullopt;
  std::optional<ElementType> index_cache_dtype = std::nullopt;
  KvStorage kv_storage = KvStorage::separate;
  ScaleGranularity scale_granularity = ScaleGranularity::tensor;
};
inline void PrintTo(const CallKind& kind, std::ostream* out) {
  *out << kind.name;
}

inline constexpr CallKind kBfloat16{"bfloat16"};
inline constexpr CallKind kFloat16{"float16", ElementType::float16};

// Every cache type, storage and granularity, with both model dtypes.
inline constexpr std::array kCallKinds{
    kBfloat16,
    kFloat16,
    CallKind{"float16_contiguous", ElementType::float16, std::nullopt, std::nullopt,
             KvStorage::block_contiguous},
    CallKind{"bfloat16_e4m3fn", ElementType::bfloat16, ElementType::float8_e4m3fn,
             ElementType::float8_e4m3fn},
    CallKind{"bfloat16_e4m3fnuz_contiguous_head_slot", ElementType::bfloat16,
             ElementType::float8_e4m3fnuz, ElementType::float8_e4m3fnuz,
             KvStorage::block_contiguous, ScaleGranularity::head_slot},
    CallKind{"float16_e5m2_head_slot", ElementType::float16, ElementType::float8_e5m2,
             ElementType::float8_e5m2, KvStorage::separate, ScaleGranularity::head_slot},
    CallKind{"float16_e5m2fnuz_contiguous", ElementType::float16, ElementType::float8_e5m2fnuz,
             ElementType::float8_e5m2fnuz, KvStorage::block_contiguous},
};

// A bfloat16 layer with rotary_dim 64 and a usual sm_scale, of those heads.
LayerConfig plain_config(std::int64_t num_heads, std::int64_t num_kv_heads);

// Sets the types and layouts of `kind`.
void apply(const CallKind& kind, GeneratorOptions& options);

// A valid decode call whose row t is the only one of request t, at positions[t] (negative: an empty
// row). Activations and caches are zero, scales 1, and nothing is inserted. Block b of request t is
// pool block pool_blocks - 1 - (t * columns + b) % pool_blocks, with as many columns as the
// largest position needs and one more.
struct CallShape {
  LayerConfig config;  // but for num_tokens, types and layouts
  CallKind kind;
  std::vector<std::int64_t> positions;
  std::int64_t pool_blocks = 1;
};
LayerCall decode_call(const CallShape& shape);

// Options of a random call with attention metadata: the cross product of random_options(), with
// topk up to 64, forced blocks, contexts from 0 to 5,000 (every length around a block's end, and
// around 2,048), score scales from flat to sharp, and few enough rows and heads for the oracle.
GeneratorOptions random_attention_options(std::uint64_t seed);

// q, index_q and caches of zeros, as insertion would leave them.
Outputs zero_insertion(const LayerCall& call);

// Row of `row`'s request, by query_start_loc.
std::int64_t request_of(const LayerCall& call, std::int64_t row);

// The slot, before any rebase, that a request's block table gives for a position.
std::int64_t slot_of(const LayerCall& call, std::int64_t request, std::int64_t position);

// Flat elements of the K and V pools (kv_cache with block_contiguous storage) at a slot as mapped,
// before any rebase (numerics.md sections 7 and 8).
std::int64_t k_element(const LayerCall& call, std::int64_t slot, std::int64_t head, std::int64_t d);
std::int64_t v_element(const LayerCall& call, std::int64_t slot, std::int64_t head, std::int64_t d);
Tensor& k_pool(const LayerCall& call, Outputs& outputs);
Tensor& v_pool(const LayerCall& call, Outputs& outputs);
const Tensor& k_pool(const LayerCall& call, const Outputs& outputs);
const Tensor& v_pool(const LayerCall& call, const Outputs& outputs);

// The slot, before any rebase, of token `i` of a row of the sparse block table.
std::int64_t slot_in_table(const LayerCall& call, const Outputs& outputs, std::int64_t row,
                           std::int64_t head, std::int64_t i);

// Elements of the float formats as numbers. put() rounds to the tensor's type; a NaN gives its NaN
// code, and fp8 overflow saturates.
void put(Tensor& tensor, std::int64_t element, float value);
float value_at(const Tensor& tensor, std::int64_t element);

// Bits of an 8- or 16-bit element.
std::uint32_t bits_at(const Tensor& tensor, std::int64_t element);

// An int32 tensor of that shape and those elements.
Tensor int32_tensor(const Shape& shape, const std::vector<std::int32_t>& elements);
std::vector<std::int32_t> elements_of(const Tensor& int32_tensor);

}  // namespace zerodiff::test
