#include "tests/reference/attention_calls.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "fixtures/generator_random.h"
#include "tests/oracle/number_formats.h"

namespace zerodiff::test {
namespace {

Tensor filled(Shape shape, float value) {
  Tensor tensor = Tensor::allocate(ElementType::float32, std::move(shape));
  std::fill(tensor.as<float>().begin(), tensor.as<float>().end(), value);
  return tensor;
}

Tensor minus_ones(std::int64_t count) {
  Tensor tensor = Tensor::allocate(ElementType::int64, {count});
  std::fill(tensor.as<std::int64_t>().begin(), tensor.as<std::int64_t>().end(), -1);
  return tensor;
}

void make_rows(const CallShape& shape, LayerCall& call) {
  const ElementType type = shape.kind.model_dtype;
  const auto rows = static_cast<std::int64_t>(shape.positions.size());
  call.qkv = Tensor::zeros(type, {rows, call.config.row_elements()});
  call.q_norm_weight = Tensor::zeros(type, {kHeadDim});
  call.k_norm_weight = Tensor::zeros(type, {kHeadDim});
  call.index_q_norm_weight = Tensor::zeros(type, {kHeadDim});
  call.index_k_norm_weight = Tensor::zeros(type, {kHeadDim});
  call.positions = Tensor::allocate(ElementType::int64, {rows});
  std::copy(shape.positions.begin(), shape.positions.end(),
            call.positions.as<std::int64_t>().begin());
  call.slot_mapping = minus_ones(rows);
  call.index_slot_mapping = minus_ones(rows);
}

void make_requests(const CallShape& shape, std::int64_t columns, LayerCall& call) {
  const auto rows = static_cast<std::int64_t>(shape.positions.size());
  call.seq_lens = Tensor::allocate(ElementType::int32, {rows});
  call.context_lens = Tensor::allocate(ElementType::int32, {rows});
  call.query_start_loc = Tensor::allocate(ElementType::int32, {rows + 1});
  call.block_table = Tensor::allocate(ElementType::int32, {rows, columns});
  for (std::int64_t r = 0; r <= rows; ++r) {
    call.query_start_loc.as<std::int32_t>()[static_cast<std::size_t>(r)] =
        static_cast<std::int32_t>(r);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto i = static_cast<std::size_t>(r);
    const auto context = static_cast<std::int32_t>(std::max<std::int64_t>(0, shape.positions[i]));
    call.context_lens.as<std::int32_t>()[i] = context;
    call.seq_lens.as<std::int32_t>()[i] = context + 1;
  }
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    call.block_table.as<std::int32_t>()[static_cast<std::size_t>(i)] =
        static_cast<std::int32_t>(shape.pool_blocks - 1 - i % shape.pool_blocks);
  }
}

void make_rope_rows(const CallShape& shape, LayerCall& call) {
  std::set<std::int64_t> named{0};
  for (const std::int64_t position : shape.positions)
    named.insert(std::max<std::int64_t>(0, position));
  const auto count = static_cast<std::int64_t>(named.size());
  call.cos_sin_rows = Tensor::allocate(ElementType::int64, {count});
  std::copy(named.begin(), named.end(), call.cos_sin_rows.as<std::int64_t>().begin());
  call.cos_sin_cache = Tensor::zeros(shape.kind.model_dtype, {count, call.config.rotary_dim});
}

void make_pools(const CallShape& shape, LayerCall& call) {
  const std::int64_t blocks = shape.pool_blocks;
  const std::int64_t nkv = call.config.num_kv_heads;
  const ElementType type = shape.kind.kv_cache_dtype.value_or(shape.kind.model_dtype);
  const std::int64_t x = is_fp8(type) ? 16 : 8;
  if (shape.kind.kv_storage == KvStorage::separate) {
    call.k_cache = Tensor::zeros(type, {blocks * 8, nkv, 128 / x, 16, x});
    call.v_cache = Tensor::zeros(type, {blocks * 8, nkv, 16 / x, 128, x});
  } else {
    call.kv_cache = Tensor::zeros(type, {blocks, 2, 8, nkv, 16 * 128});
  }
  call.index_cache = Tensor::zeros(shape.kind.index_cache_dtype.value_or(shape.kind.model_dtype),
                                   {blocks, 128, 128});
  if (!is_fp8(type)) return;
  const bool by_slot = shape.kind.scale_granularity == ScaleGranularity::head_slot;
  call.k_scale = filled(by_slot ? Shape{nkv, blocks * 128} : Shape{1}, 1);
  call.v_scale = call.k_scale;
}

void choose_selection(generator::Random& random, LayerConfig& config) {
  config.topk = random.coin() ? 16 : random.integer(1, 64);
  config.init_blocks = random.pick<std::int64_t>({0, 0, 0, 1, 2, 6});
  config.local_blocks = random.pick<std::int64_t>({1, 1, 1, 0, 2, 4});
  config.sm_scale = random.pick({0x1.6a09e6p-4F, 0x1.6a09e6p-4F, 0x1p-10F, 1.0F, 30.0F});
}

void choose_contexts(generator::Random& random, GeneratorOptions& options) {
  options.min_context = random.pick<std::int64_t>({0, 0, 0, 1900, 2000});
  options.max_context = options.min_context + random.pick<std::int64_t>({0, 100, 300});
  if (random.chance(0.1)) options.max_context = 5000;
  if (random.chance(0.2)) {
    options.min_context = kBlockSize * random.integer(1, 20) + random.integer(-2, 1);
    options.max_context = options.min_context;
  }
  options.sparse_rope_table = options.max_context > 300 || random.chance(0.2);
  options.max_context_blocks = random.integer(1, 4);
}

// The work of the oracle, in dots of 128.
std::int64_t oracle_work(const GeneratorOptions& options) {
  const LayerConfig& config = options.config;
  const std::int64_t context = options.max_context + config.num_tokens;
  return config.num_tokens * (config.num_heads * std::min(config.topk * kBlockSize, context) +
                              config.num_index_heads * context);
}

void limit_heads(GeneratorOptions& options) {
  constexpr std::int64_t kMostWork = 200'000;
  LayerConfig& config = options.config;
  while (oracle_work(options) > kMostWork && config.num_heads > 1) {
    if (config.num_heads >= 2 * config.num_kv_heads) {
      config.num_heads = config.num_heads / config.num_kv_heads / 2 * config.num_kv_heads;
    } else {
      config.num_kv_heads = std::max<std::int64_t>(1, config.num_kv_heads / 2);
      config.num_heads = config.num_kv_heads;
    }
    config.num_index_heads = config.num_kv_heads;
  }
}

std::int64_t vector_width(const LayerCall& call) {
  return is_fp8(call.kv_cache_type()) ? 16 : 8;
}

// The page that holds K of a slot, among all pages of the pool.
std::int64_t k_page(const LayerCall& call, std::int64_t slot) {
  const bool contiguous = call.config.kv_storage == KvStorage::block_contiguous;
  return slot / 128 * (contiguous ? 16 : 8) + slot % 128 / 16;
}

}  // namespace

LayerConfig plain_config(std::int64_t num_heads, std::int64_t num_kv_heads) {
  LayerConfig config;
  config.num_heads = num_heads;
  config.num_kv_heads = num_kv_heads;
  config.num_index_heads = num_kv_heads;
  config.rotary_dim = 64;
  config.rms_norm_eps = 1e-6F;
  config.sm_scale = 0x1.6a09e6p-4F;
  return config;
}

void apply(const CallKind& kind, GeneratorOptions& options) {
  options.model_dtype = kind.model_dtype;
  options.config.kv_cache_dtype = kind.kv_cache_dtype;
  options.config.index_cache_dtype = kind.index_cache_dtype;
  options.config.kv_storage = kind.kv_storage;
  options.config.scale_granularity = kind.scale_granularity;
}

LayerCall decode_call(const CallShape& shape) {
  GeneratorOptions options;
  options.config = shape.config;
  apply(shape.kind, options);
  LayerCall call;
  call.config = options.config;
  call.config.num_tokens = static_cast<std::int64_t>(shape.positions.size());
  std::int64_t last = 0;
  for (const std::int64_t position : shape.positions) last = std::max(last, position);
  make_rows(shape, call);
  make_requests(shape, last / kBlockSize + 2, call);
  make_pools(shape, call);
  make_rope_rows(shape, call);
  return call;
}

GeneratorOptions random_attention_options(std::uint64_t seed) {
  GeneratorOptions options = random_options(seed);
  generator::Random random(seed + 0x5EED);
  options.with_attention_metadata = true;
  choose_selection(random, options.config);
  choose_contexts(random, options);
  limit_heads(options);
  if (options.empty_row_share == 1 && random.chance(0.75)) options.empty_row_share = 0;
  if (random.chance(0.85)) {  // scales that neither overflow K and V nor make them vanish
    options.k_scale = static_cast<float>(random.binade(-6, 2));
    options.v_scale = static_cast<float>(random.binade(-6, 2));
  }
  return options;
}

Outputs zero_insertion(const LayerCall& call) {
  Outputs outputs;
  const std::int64_t rows = call.capacity();
  outputs.q = Tensor::zeros(call.model_dtype(), {rows, call.config.num_heads * kHeadDim});
  outputs.index_q =
      Tensor::zeros(call.index_cache_type(), {rows, call.config.num_index_heads * kHeadDim});
  outputs.k_cache = call.k_cache;
  outputs.v_cache = call.v_cache;
  outputs.kv_cache = call.kv_cache;
  outputs.index_cache = call.index_cache;
  return outputs;
}

std::int64_t request_of(const LayerCall& call, std::int64_t row) {
  const auto starts = call.query_start_loc.as<std::int32_t>();
  const auto after = std::upper_bound(starts.begin(), starts.end(), row);
  return after - starts.begin() - 1;
}

std::int64_t slot_of(const LayerCall& call, std::int64_t request, std::int64_t position) {
  const std::int64_t entry = request * call.block_table.dim(1) + position / kBlockSize;
  const std::int64_t block = call.block_table.as<std::int32_t>()[static_cast<std::size_t>(entry)];
  return block * kBlockSize + position % kBlockSize;
}

std::int64_t k_element(const LayerCall& call, std::int64_t slot, std::int64_t head,
                       std::int64_t d) {
  const std::int64_t x = vector_width(call);
  const std::int64_t plane = k_page(call, slot) * call.config.num_kv_heads + head;
  return plane * 2048 + d / x * 16 * x + slot % 16 * x + d % x;
}

std::int64_t v_element(const LayerCall& call, std::int64_t slot, std::int64_t head,
                       std::int64_t d) {
  const std::int64_t x = vector_width(call);
  const std::int64_t first = call.config.kv_storage == KvStorage::block_contiguous ? 8 : 0;
  const std::int64_t plane = (k_page(call, slot) + first) * call.config.num_kv_heads + head;
  return plane * 2048 + slot % 16 / x * 128 * x + d * x + slot % 16 % x;
}

Tensor& k_pool(const LayerCall& call, Outputs& outputs) {
  return call.config.kv_storage == KvStorage::separate ? outputs.k_cache : outputs.kv_cache;
}

Tensor& v_pool(const LayerCall& call, Outputs& outputs) {
  return call.config.kv_storage == KvStorage::separate ? outputs.v_cache : outputs.kv_cache;
}

const Tensor& k_pool(const LayerCall& call, const Outputs& outputs) {
  return call.config.kv_storage == KvStorage::separate ? outputs.k_cache : outputs.kv_cache;
}

const Tensor& v_pool(const LayerCall& call, const Outputs& outputs) {
  return call.config.kv_storage == KvStorage::separate ? outputs.v_cache : outputs.kv_cache;
}

std::int64_t slot_in_table(const LayerCall& call, const Outputs& outputs, std::int64_t row,
                           std::int64_t head, std::int64_t i) {
  const std::int64_t nkv = call.config.num_kv_heads;
  const std::int64_t pages = call.config.kv_storage == KvStorage::separate ? 8 : 16;
  const std::int64_t entry = (row * nkv + head) * call.config.topk * 8 + i / kPageSize;
  const std::int64_t page =
      outputs.sparse_block_table.as<std::int32_t>()[static_cast<std::size_t>(entry)] / nkv;
  return page / pages * kBlockSize + page % pages * kPageSize + i % kPageSize;
}

void put(Tensor& tensor, std::int64_t element, float value) {
  if (element < 0 || element >= tensor.size()) throw std::out_of_range("put: past the tensor");
  const auto index = static_cast<std::size_t>(element);
  if (is_fp8(tensor.type())) {
    tensor.as<std::uint8_t>()[index] = oracle::encode_fp8(tensor.type(), value, Overflow::saturate);
  } else {
    tensor.as<std::uint16_t>()[index] = oracle::encode_model_dtype(tensor.type(), value);
  }
}

float value_at(const Tensor& tensor, std::int64_t element) {
  return static_cast<float>(oracle::decode(tensor.type(), bits_at(tensor, element)));
}

std::uint32_t bits_at(const Tensor& tensor, std::int64_t element) {
  if (element < 0 || element >= tensor.size()) throw std::out_of_range("bits_at: past the tensor");
  const auto index = static_cast<std::size_t>(element);
  return is_fp8(tensor.type()) ? tensor.as<std::uint8_t>()[index]
                               : tensor.as<std::uint16_t>()[index];
}

Tensor int32_tensor(const Shape& shape, const std::vector<std::int32_t>& elements) {
  Tensor tensor = Tensor::allocate(ElementType::int32, shape);
  if (tensor.size() != static_cast<std::int64_t>(elements.size())) {
    throw std::invalid_argument("int32_tensor: elements do not fill the shape");
  }
  std::copy(elements.begin(), elements.end(), tensor.as<std::int32_t>().begin());
  return tensor;
}

std::vector<std::int32_t> elements_of(const Tensor& int32_tensor) {
  const auto elements = int32_tensor.as<std::int32_t>();
  return {elements.begin(), elements.end()};
}

}  // namespace zerodiff::test
