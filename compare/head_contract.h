// The insertion contract (numerics.md sections 3 to 8) one head at a time and in separate steps, so
// that a hypothesis can put another step in the place of one.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>

#include "compare/written_elements.h"
#include "fixtures/layer_call.h"
#include "reference/qk_norm_rope.h"
#include "reference/scale_contract.h"

namespace zerodiff::compare {

// The parts of a packed row.
enum class Branch : std::uint8_t { q, k, v, index_q, index_k };
inline constexpr std::array<Branch, 5> kBranches{Branch::q, Branch::k, Branch::v, Branch::index_q,
                                                 Branch::index_k};
const char* name_of(Branch branch);

// One head of one row of the batch.
struct HeadAt {
  Branch branch = Branch::q;
  std::int64_t token = 0;
  std::int64_t head = 0;

  bool operator==(const HeadAt&) const = default;
};

using Head = std::array<float, kHeadDim>;
// Stored bits, zero-extended.
using HeadCodes = std::array<std::uint32_t, kHeadDim>;

// Sums and differences of positions, which may be any int64: at its ends, the end.
inline std::int64_t position_plus(std::int64_t position, std::int64_t shift) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(position, shift, &sum)) return sum;
  return shift > 0 ? std::numeric_limits<std::int64_t>::max()
                   : std::numeric_limits<std::int64_t>::min();
}
inline std::int64_t shift_between(std::int64_t from, std::int64_t to) {
  std::int64_t shift = 0;
  if (!__builtin_sub_overflow(to, from, &shift)) return shift;
  return to > from ? std::numeric_limits<std::int64_t>::max()
                   : std::numeric_limits<std::int64_t>::min();
}

// Under given choices per build; rsqrt_ulp and sumsq_order, which are per head, are not read. Const
// and thread-safe. The call must outlive it.
class HeadContract {
 public:
  explicit HeadContract(const LayerCall& call, const reference::Choices& choices = {});

  const LayerCall& call() const { return *call_; }
  reference::RopeContraction contraction() const { return choices_.rope_contraction; }
  const WrittenSlots& written() const { return written_; }
  std::int64_t heads(Branch branch) const;
  // Heads of the packed row before the branch's first one.
  std::int64_t heads_before(Branch branch) const;
  std::int64_t position(std::int64_t token) const;

  // Flat index in qkv of the head's first element.
  std::int64_t first_element(const HeadAt& at) const;
  // 128 elements of qkv from `first` on, as bits and decoded. Elements past the tensor are NaN.
  HeadCodes read_bits(std::int64_t first) const;
  Head read(std::int64_t first) const;

  // w of the branch, without the 1; zeros if the call has no such weight.
  const Head& weight(Branch branch) const;
  // r of section 3.
  float norm_factor(const Head& x) const;
  // y of section 3. V, which has no norm, is returned as it is.
  Head norm(const HeadAt& at, const Head& x) const;

  // The row of the RoPE table for a position (a negative one reads as 0), or nullopt if the table
  // has no such row.
  std::optional<reference::RopeRow> rope_row(std::int64_t position) const;
  // z of section 4. V is returned as it is.
  Head rope(const HeadAt& at, const Head& y) const;

  // The type that elements of the branch are stored in.
  ElementType stored_type(Branch branch) const;
  // Whether the branch is stored in the K/V cache, by its scales.
  bool scaled(Branch branch) const { return branch == Branch::k || branch == Branch::v; }
  // The dequantisation scale of a head: 1 for anything but K and V in an fp8 cache.
  float scale(const HeadAt& at) const;
  // Whether the branch's codes are made of values rounded to the model dtype.
  bool rounds_before_code(Branch branch) const;
  // What the contract quantises: z, or z rounded to the model dtype.
  Head to_quantise(Branch branch, const Head& z) const;
  reference::ScaleContract code_contract(Branch branch) const;
  // Stored bits of z (of v for V).
  HeadCodes encode(const HeadAt& at, const Head& z) const;

  // Elements of the tensor that the branch is stored in.
  std::int64_t stored_elements(Branch branch) const;
  // Where dim `dim` is stored, as a flat index in the branch's output; -1: nowhere.
  std::int64_t place(const HeadAt& at, std::int64_t dim) const;
  // The page layout of K or V.
  const reference::PagedLayout& layout(Branch branch) const;
  // The slot by which K and V are stored (rebased with block_contiguous), or index K; -1: none.
  std::int64_t mapped_slot(Branch branch, std::int64_t token) const;

 private:
  Head decode_weight(const Tensor& tensor) const;

  const LayerCall* call_;
  reference::Choices choices_;
  WrittenSlots written_;
  std::array<Head, 5> weights_{};
  reference::RopeTable rope_table_;
  reference::ScaleReader k_scale_;
  reference::ScaleReader v_scale_;
  reference::PagedLayout k_layout_;
  reference::PagedLayout v_layout_;
};

}  // namespace zerodiff::compare
