#include "compare/poison.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <vector>

#include "compare/written_elements.h"

namespace zerodiff::compare {
namespace {

// A NaN of every format that has one, or the largest finite value.
std::uint64_t poison_bits(ElementType type, PoisonFill fill) {
  const bool nan = fill == PoisonFill::nan;
  switch (type) {
    case ElementType::bfloat16:
      return nan ? 0x7FC0 : 0x7F7F;
    case ElementType::float16:
      return nan ? 0x7E00 : 0x7BFF;
    case ElementType::float8_e4m3fn:
      return nan ? 0x7F : 0x7E;
    case ElementType::float8_e5m2:
      return nan ? 0x7F : 0x7B;
    default:
      return nan ? 0x80 : 0x7F;  // the two fnuz formats
  }
}

// Whether each slot of the pool holds a token of some request.
std::vector<bool> live_slots(const LayerCall& call) {
  std::vector<bool> live(static_cast<std::size_t>(call.num_slots()), false);
  const auto table = call.block_table.as<std::int32_t>();
  const auto lengths = call.seq_lens.as<std::int32_t>();
  const std::int64_t columns = call.block_table.dim(1);
  for (std::size_t request = 0; request < lengths.size(); ++request) {
    const std::int64_t end = std::min<std::int64_t>(lengths[request], columns * kBlockSize);
    for (std::int64_t position = 0; position < end; ++position) {
      const std::int64_t block = table[request * static_cast<std::size_t>(columns) +
                                       static_cast<std::size_t>(position / kBlockSize)];
      live[static_cast<std::size_t>(block * kBlockSize + position % kBlockSize)] = true;
    }
  }
  return live;
}

template <class Bits>
void poison_cache(const LayerCall& call, CacheOutput output, const std::vector<bool>& live,
                  PoisonFill fill, Tensor& cache) {
  const CacheGeometry geometry(call, output);
  const auto poison = static_cast<Bits>(poison_bits(cache.type(), fill));
  const auto bits = cache.as<Bits>();
  for (std::int64_t i = 0; i < cache.size(); ++i) {
    const CacheElement element = geometry.at(i);
    if (!live[static_cast<std::size_t>(element.slot)]) bits[static_cast<std::size_t>(i)] = poison;
  }
}

void poison_cache(const LayerCall& call, CacheOutput output, const std::vector<bool>& live,
                  PoisonFill fill, Tensor& cache) {
  if (!cache.present()) return;
  if (is_fp8(cache.type())) {
    poison_cache<std::uint8_t>(call, output, live, fill, cache);
  } else {
    poison_cache<std::uint16_t>(call, output, live, fill, cache);
  }
}

void poison_padding_rows(PoisonFill fill, LayerCall& call) {
  const std::int64_t first = call.config.num_tokens * call.config.row_elements();
  const auto rows = call.qkv.as<std::uint16_t>().subspan(static_cast<std::size_t>(first));
  std::ranges::fill(rows, static_cast<std::uint16_t>(poison_bits(call.model_dtype(), fill)));
}

}  // namespace

LayerCall poisoned_call(const LayerCall& call, PoisonFill fill) {
  assert(call.has_attention_metadata());
  LayerCall poisoned = call;
  const std::vector<bool> live = live_slots(call);
  poison_cache(call, CacheOutput::k_cache, live, fill, poisoned.k_cache);
  poison_cache(call, CacheOutput::v_cache, live, fill, poisoned.v_cache);
  poison_cache(call, CacheOutput::kv_cache, live, fill, poisoned.kv_cache);
  poison_cache(call, CacheOutput::index_cache, live, fill, poisoned.index_cache);
  poison_padding_rows(fill, poisoned);
  return poisoned;
}

}  // namespace zerodiff::compare
