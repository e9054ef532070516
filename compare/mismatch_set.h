// The mismatching elements of one tensor, by the head of the row that owns them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compare/element_order.h"
#include "compare/head_contract.h"
#include "fixtures/tensor.h"

namespace zerodiff::compare {

// Elements of 8 or 16 bits, zero-extended. The tensor must outlive it.
class StoredBits {
 public:
  explicit StoredBits(const Tensor& tensor)
      : data_(tensor.bytes().data()), wide_(element_size(tensor.type()) == 2) {}
  std::uint32_t at(std::int64_t flat) const {
    const auto i = static_cast<std::size_t>(flat);
    return wide_ ? reinterpret_cast<const std::uint16_t*>(data_)[i]
                 : static_cast<std::uint32_t>(data_[i]);
  }

 private:
  const std::byte* data_;
  bool wide_;
};

struct AffectedHead {
  HeadAt at;
  std::int64_t mismatches = 0;
};

// A tensor of the insertion stages: one branch, in the output that holds it.
struct JudgedTensor {
  std::string_view output;  // a name of kOutputFields
  Branch branch = Branch::q;
  const Tensor* expected = nullptr;  // never null, and of one type and shape
  const Tensor* got = nullptr;
  const Tensor* before = nullptr;  // a cache before the call; null for q and index_q

  // Whether two values of the tensor are the same result (numerics.md section 0).
  bool same(std::uint32_t a, std::uint32_t b) const {
    return a == b || (any_nan_ && order_.is_nan(a) && order_.is_nan(b));
  }
  void prepare();  // after `expected` and `branch` are set

 private:
  ElementOrder order_;
  bool any_nan_ = true;
};

// What a flat index of a cache is, as bits of MismatchSet::kinds.
inline constexpr std::uint8_t kOwned = 1;     // a row of the contract stores it
inline constexpr std::uint8_t kAffected = 2;  // in a head that has a mismatch
inline constexpr std::uint8_t kMismatching = 4;

struct MismatchSet {
  std::vector<AffectedHead> heads;   // by token, then head
  std::vector<std::int64_t> strays;  // flat indices that no row owns and that changed, ascending
  std::int64_t total = 0;
  std::int64_t stored_heads = 0;    // heads that the contract stores
  std::vector<std::uint8_t> kinds;  // of a cache's elements of this branch's plane; else empty
};

// Scheduled rows of q and index_q; all of a cache (of the branch's plane of kv_cache).
MismatchSet mismatches_of(const HeadContract& contract, const JudgedTensor& tensor);

}  // namespace zerodiff::compare
