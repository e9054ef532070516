// Blocks of K and V as the bounds of attention use them: in binary64, with the sizes that errors
// are made of, and decoded once for all rows that name them close together.
#pragma once

#include <Eigen/Core>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "compare/packed_matrix.h"
#include "fixtures/layer_call.h"
#include "reference/cache_pages.h"

namespace zerodiff::compare {

// The live tokens of up to 8 pages, [tokens][128].
using BlockValues = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using BlockSizes = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct BlockOfKeys {
  PackedMatrix<double> values;  // [tokens][128]
  BlockSizes norms;             // [tokens][128 / x]: Euclidean, of every x dims
};

struct BlockOfValues {
  PackedMatrix<double> transposed;  // [128][tokens]
  PackedMatrix<float> sizes;        // [128][tokens]: |values|, transposed
  Eigen::VectorXf largest;          // [128]: of each dim's sizes
};

// For one thread. Keeps the last blocks read, 10 MiB of them, where requests have several rows and
// so share blocks.
class BlockReader {
 public:
  // The pools and the call must outlive it. block_contiguous storage: the same pool twice.
  BlockReader(const LayerCall& call, const Tensor& k_pool, const Tensor& v_pool);

  // folded_ids: the pages of the block; live: its tokens, 1 to 128. A result holds until the next
  // call of the same function.
  const BlockOfKeys& keys(std::span<const std::int32_t> folded_ids, std::int64_t live);
  const BlockOfValues& values(std::span<const std::int32_t> folded_ids, std::int64_t live);

  // V of a block, [tokens][128]; holds until the next call of any function.
  const BlockValues& plain_values(std::span<const std::int32_t> folded_ids, std::int64_t live);

  std::int64_t vector_width() const { return vector_width_; }  // x

 private:
  struct Name {
    std::int64_t live = 0;
    std::array<std::int32_t, static_cast<std::size_t>(kPagesPerBlock)> folded_ids{};
    friend bool operator==(const Name&, const Name&) = default;
  };
  template <class B>
  struct Entry {
    Name name;
    B block;
  };
  static Name name_of(std::span<const std::int32_t> folded_ids, std::int64_t live);
  std::size_t place_of(const Name& name) const;
  // Into block_.
  void read(const reference::CachePages& pages, bool is_value, const Name& name);
  void copy_page(bool is_value, std::int64_t tokens, double* out) const;
  void measure(BlockSizes& norms) const;

  reference::CachePages k_pages_;
  reference::CachePages v_pages_;
  std::int64_t vector_width_;
  std::int64_t num_kv_heads_;
  std::vector<float> page_;
  BlockValues block_;
  std::vector<Entry<BlockOfKeys>> keys_;
  std::vector<Entry<BlockOfValues>> values_;
};

}  // namespace zerodiff::compare
