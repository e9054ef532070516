#include "tests/oracle/attention_oracle.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/oracle/block_selection.h"
#include "tests/oracle/elements.h"

namespace zerodiff::oracle {
namespace {

using Vector = std::array<float, 128>;

// MD(value), decoded: rounded to a multiple of the step of its binade, overflow to infinity.
float round_to_model(ElementType model_dtype, float value) {
  if (!std::isfinite(value) || value == 0) return value;
  const FormatFacts facts = facts_of(model_dtype);
  const int binade = std::max(std::ilogb(value), 1 - facts.bias);
  const double step = std::ldexp(1.0, binade - facts.mantissa_bits);
  const double rounded = std::rint(value / step) * step;
  if (std::fabs(rounded) > decode(model_dtype, facts.largest_code)) {
    return std::copysign(std::numeric_limits<float>::infinity(), value);
  }
  return static_cast<float>(rounded);
}

// max, with whatever a NaN does to it: section 13 leaves a NaN in every output of the head anyway.
float maximum_of(const std::vector<float>& values) {
  float maximum = values[0];
  for (const float value : values) {
    if (value > maximum) maximum = value;
  }
  return maximum;
}

float lane_sum(const Vector& v) {
  std::array<float, 32> p{};
  for (std::size_t l = 0; l < 32; ++l) {
    p[l] = v[4 * l] + v[4 * l + 1];
    p[l] = p[l] + v[4 * l + 2];
    p[l] = p[l] + v[4 * l + 3];
  }
  for (const std::size_t m : {16, 8, 4, 2, 1}) {
    for (std::size_t l = 0; l < m; ++l) p[l] = p[l] + p[l + m];
  }
  return p[0];
}

// k̃ and ṽ of section 6 at a page that a table names, through the layouts of section 8.
class Pool {
 public:
  Pool(const LayerCall& call, const Outputs& inputs)
      : call_(call),
        contiguous_(call.config.kv_storage == KvStorage::block_contiguous),
        nkv_(call.config.num_kv_heads),
        x_(element_size(call.kv_cache_type()) == 1 ? 16 : 8),
        k_(contiguous_ ? inputs.kv_cache : inputs.k_cache),
        v_(contiguous_ ? inputs.kv_cache : inputs.v_cache) {}

  struct Token {
    Vector k;
    Vector v;
  };

  Token token(std::int64_t page, std::int64_t head, std::int64_t offset) const {
    Token token;
    const std::int64_t v_page = contiguous_ ? page + 8 : page;
    for (std::int64_t d = 0; d < 128; ++d) {
      const std::int64_t k_element =
          ((page * nkv_ + head) * (128 / x_) + d / x_) * 16 * x_ + offset * x_ + d % x_;
      const std::int64_t v_element =
          ((v_page * nkv_ + head) * (16 / x_) + offset / x_) * 128 * x_ + d * x_ + offset % x_;
      const auto index = static_cast<std::size_t>(d);
      token.k[index] = dequantised(k_.at(k_element), call_.k_scale, page, head, offset);
      token.v[index] = dequantised(v_.at(v_element), call_.v_scale, page, head, offset);
    }
    return token;
  }

 private:
  float dequantised(float stored, const Tensor& scales, std::int64_t page, std::int64_t head,
                    std::int64_t offset) const {
    if (!is_fp8(call_.kv_cache_type())) return stored;
    std::int64_t element = 0;
    if (call_.config.scale_granularity == ScaleGranularity::head_slot) {
      const std::int64_t block = page / (contiguous_ ? 16 : 8);
      const std::int64_t page_in_block = page % 8;
      element = head * scales.dim(1) + block * 128 + page_in_block * 16 + offset;
    }
    const float product = stored * element_at<float>(scales, element);
    return round_to_model(call_.model_dtype(), product);
  }

  const LayerCall& call_;
  bool contiguous_;
  std::int64_t nkv_;
  std::int64_t x_;
  Values k_;
  Values v_;
};

// The tokens that rows of the table list, in table order. Rows of one request list the same tokens
// again and again: each is dequantised once.
class TableReader {
 public:
  using Row = std::vector<const Pool::Token*>;

  TableReader(const LayerCall& call, const Outputs& inputs)
      : call_(call), inputs_(inputs), pool_(call, inputs) {}

  Row row(std::int64_t token, std::int64_t head) {
    const std::int64_t row = token * call_.config.num_kv_heads + head;
    const std::int64_t width = call_.config.topk * 8;
    const std::int64_t length = element_at<std::int32_t>(inputs_.sparse_context_lens, row);
    Row tokens;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t id =
          element_at<std::int32_t>(inputs_.sparse_block_table, row * width + i / 16);
      tokens.push_back(&at(id, head, i % 16));
    }
    return tokens;
  }

 private:
  const Pool::Token& at(std::int64_t id, std::int64_t head, std::int64_t offset) {
    const std::int64_t nkv = call_.config.num_kv_heads;
    if (id < 0 || id % nkv != head) throw std::out_of_range("oracle: an id of another head");
    const auto key = std::pair(id, offset);
    const auto found = read_.find(key);
    if (found != read_.end()) return found->second;
    return read_.emplace(key, pool_.token(id / nkv, head, offset)).first->second;
  }

  const LayerCall& call_;
  const Outputs& inputs_;
  Pool pool_;
  std::map<std::pair<std::int64_t, std::int64_t>, Pool::Token> read_;  // by id and offset
};

// m_n, l_n and o_n of section 13.
struct BlockPart {
  float maximum = 0;
  float sum = 0;
  Vector weighted{};
};

// Block `n` of a row: its tokens are those from 128 * n on.
BlockPart attend_block(const LayerCall& call, const Vector& q, const TableReader::Row& tokens,
                       std::size_t n) {
  const std::size_t first = 128 * n;
  const std::size_t live = std::min<std::size_t>(128, tokens.size() - first);
  const float c = call.config.sm_scale * 0x1.715476p+0F;
  std::vector<float> s;
  for (std::size_t i = 0; i < live; ++i) {
    float dot = 0;
    for (std::size_t d = 0; d < 128; ++d) dot = std::fma(q[d], tokens[first + i]->k[d], dot);
    s.push_back(dot * c);
  }
  BlockPart part;
  part.maximum = maximum_of(s);
  Vector e{};
  for (std::size_t i = 0; i < live; ++i) e[i] = exp2_of(s[i] - part.maximum);
  part.sum = lane_sum(e);
  for (std::size_t i = 0; i < live; ++i) {
    const float p = round_to_model(call.model_dtype(), e[i]);
    for (std::size_t d = 0; d < 128; ++d) {
      part.weighted[d] = std::fma(p, tokens[first + i]->v[d], part.weighted[d]);
    }
  }
  return part;
}

// out of one query head before MD.
Vector attend(const LayerCall& call, const Vector& q, const TableReader::Row& tokens) {
  std::vector<BlockPart> parts;
  std::vector<float> maxima;
  for (std::size_t n = 0; 128 * n < tokens.size(); ++n) {
    parts.push_back(attend_block(call, q, tokens, n));
    maxima.push_back(parts.back().maximum);
  }
  Vector out{};
  if (parts.empty()) return out;
  const float maximum = maximum_of(maxima);
  float sum = 0;
  for (const BlockPart& part : parts) {
    const float w = exp2_of(part.maximum - maximum);
    sum = std::fma(w, part.sum, sum);
    for (std::size_t d = 0; d < 128; ++d) out[d] = std::fma(w, part.weighted[d], out[d]);
  }
  for (float& value : out) value = value / sum;
  return out;
}

}  // namespace

float exp2_of(float t) {
  if (std::isnan(t)) return t;
  if (t < -125.0F) return 0.0F;
  const float n = std::rint(t);
  const float f = t - n;
  float y = 0x1.41d334p-13F;
  for (const float c :
       {0x1.5f456ap-10F, 0x1.3b2dbcp-7F, 0x1.c6aed4p-5F, 0x1.ebfbdap-3F, 0x1.62e43p-1F, 0x1p+0F}) {
    y = std::fma(y, f, c);
  }
  return std::ldexp(y, static_cast<int>(n));
}

Tensor sparse_attention(const LayerCall& call, const Outputs& inputs) {
  const std::int64_t heads = call.config.num_heads;
  const std::int64_t group = heads / call.config.num_kv_heads;
  TableReader reader(call, inputs);
  const Values queries(inputs.q);
  Tensor result = Tensor::allocate(call.model_dtype(), {call.config.num_tokens, heads, 128});
  std::size_t element = 0;
  TableReader::Row tokens;
  for (std::int64_t token = 0; token < call.config.num_tokens; ++token) {
    for (std::int64_t g = 0; g < heads; ++g) {
      if (g % group == 0) tokens = reader.row(token, g / group);
      Vector q;
      for (std::size_t d = 0; d < 128; ++d) {
        q[d] = queries.at((token * heads + g) * 128 + static_cast<std::int64_t>(d));
      }
      for (const float value : attend(call, q, tokens)) {
        result.as<std::uint16_t>()[element++] = encode_model_dtype(call.model_dtype(), value);
      }
    }
  }
  return result;
}

Outputs run_attention(const LayerCall& call, const Outputs& insertion) {
  Outputs result;
  Tensor selection = call.topk_index;
  if (!call.config.skip_index_branch) {
    result.index_score = index_score(call, insertion.index_q, insertion.index_cache);
    result.topk_index = index_topk(call, result.index_score);
    selection = result.topk_index;
  }
  if (!selection.present()) return result;
  auto [table, context_lens] = sparse_block_table(call, selection);
  Outputs inputs = insertion;
  inputs.sparse_block_table = table;
  inputs.sparse_context_lens = context_lens;
  result.attn_output = sparse_attention(call, inputs);
  result.sparse_block_table = std::move(table);
  result.sparse_context_lens = std::move(context_lens);
  return result;
}

}  // namespace zerodiff::oracle
