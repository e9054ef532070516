#include "compare/block_reader.h"

#include <algorithm>
#include <cmath>

namespace zerodiff::compare {
namespace {

constexpr std::size_t kSharedBlocks = 32;

std::size_t kept_blocks(const LayerCall& call) {
  return call.config.num_tokens >= call.block_table.dim(0) * 2 ? kSharedBlocks : 1;
}

}  // namespace

BlockReader::BlockReader(const LayerCall& call, const Tensor& k_pool, const Tensor& v_pool)
    : k_pages_(call, k_pool, false),
      v_pages_(call, v_pool, true),
      vector_width_(call.cache_vector_width()),
      num_kv_heads_(call.config.num_kv_heads),
      page_(static_cast<std::size_t>(reference::kPagePlane)),
      keys_(kept_blocks(call)),
      values_(kept_blocks(call)) {}

BlockReader::Name BlockReader::name_of(std::span<const std::int32_t> folded_ids,
                                       std::int64_t live) {
  Name name{live, {}};
  std::copy_n(folded_ids.begin(), (live + kPageSize - 1) / kPageSize, name.folded_ids.begin());
  return name;
}

std::size_t BlockReader::place_of(const Name& name) const {
  const std::int64_t id = name.folded_ids[0];
  const std::int64_t block = id / num_kv_heads_ / kPagesPerBlock;
  return static_cast<std::size_t>(block * num_kv_heads_ + id % num_kv_heads_) % keys_.size();
}

void BlockReader::copy_page(bool is_value, std::int64_t tokens, double* out) const {
  const std::int64_t x = vector_width_;
  const float* const page = page_.data();
  for (std::int64_t token = 0; token < tokens; ++token, out += kHeadDim) {
    if (is_value) {
      const float* const column = page + token / x * kHeadDim * x + token % x;
      for (std::int64_t d = 0; d < kHeadDim; ++d) out[d] = static_cast<double>(column[d * x]);
      continue;
    }
    for (std::int64_t d = 0; d < kHeadDim; d += x) {
      const float* const part = page + d * kPageSize + token * x;
      for (std::int64_t i = 0; i < x; ++i) out[d + i] = static_cast<double>(part[i]);
    }
  }
}

void BlockReader::read(const reference::CachePages& pages, bool is_value, const Name& name) {
  block_.resize(name.live, kHeadDim);
  for (std::int64_t first = 0; first < name.live; first += kPageSize) {
    pages.read(name.folded_ids[static_cast<std::size_t>(first / kPageSize)],
               std::span<float, reference::kPagePlane>(page_));
    copy_page(is_value, std::min(kPageSize, name.live - first), block_.data() + first * kHeadDim);
  }
}

// In binary64: squares of small binary32 numbers vanish in binary32.
void BlockReader::measure(BlockSizes& norms) const {
  using Eight = Eigen::Map<const Eigen::Array<double, 8, 1>>;
  norms.resize(block_.rows(), kHeadDim / vector_width_);
  const double* values = block_.data();
  for (std::int64_t i = 0; i < norms.size(); ++i) {
    double squares = 0;
    for (std::int64_t j = 0; j < vector_width_; j += 8, values += 8) {
      squares += Eight(values).square().sum();
    }
    norms.data()[i] = static_cast<float>(std::sqrt(squares));
  }
}

const BlockOfKeys& BlockReader::keys(std::span<const std::int32_t> folded_ids, std::int64_t live) {
  const Name name = name_of(folded_ids, live);
  Entry<BlockOfKeys>& entry = keys_[place_of(name)];
  if (entry.name == name) return entry.block;
  entry.name = name;
  read(k_pages_, false, name);
  measure(entry.block.norms);
  entry.block.values.pack(block_.data(), live, kHeadDim, kHeadDim, false);
  return entry.block;
}

const BlockOfValues& BlockReader::values(std::span<const std::int32_t> folded_ids,
                                         std::int64_t live) {
  const Name name = name_of(folded_ids, live);
  Entry<BlockOfValues>& entry = values_[place_of(name)];
  if (entry.name == name) return entry.block;
  entry.name = name;
  BlockOfValues& block = entry.block;
  read(v_pages_, true, name);
  const BlockSizes sizes = block_.cast<float>().cwiseAbs();
  block.largest = sizes.row(0).transpose();
  for (std::int64_t i = 1; i < live; ++i) {
    block.largest = block.largest.cwiseMax(sizes.row(i).transpose());
  }
  block.transposed.pack(block_.data(), kHeadDim, live, kHeadDim, true);
  block.sizes.pack(sizes.data(), kHeadDim, live, kHeadDim, true);
  return block;
}

const BlockValues& BlockReader::plain_values(std::span<const std::int32_t> folded_ids,
                                             std::int64_t live) {
  read(v_pages_, true, name_of(folded_ids, live));
  return block_;
}

}  // namespace zerodiff::compare
