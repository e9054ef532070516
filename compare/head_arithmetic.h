// Whether allowed choices give a head the bits that a path holds: the search for its norm factor.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "compare/element_order.h"
#include "compare/head_storage.h"
#include "compare/insertion_heads.h"
#include "compare/norm_factor.h"
#include "reference/choices.h"
#include "reference/qk_norm_rope.h"

namespace zerodiff::compare {

// The heads of one tensor under given choices per build. Not thread-safe: one for each thread.
class HeadArithmetic {
 public:
  // All three must outlive it. Of `choices`, rsqrt_ulp and sumsq_order are not read: `freedom` says
  // what r may be.
  HeadArithmetic(const LayerCall& call, const InsertionHeads& heads,
                 const reference::Choices& choices, const FactorFreedom& freedom);

  // How many ulp r has to be moved from the contract's so that head `i` has the bits `got` in all
  // 128 elements (NaNs are one class): the smallest move, upwards before downwards; 0 for V.
  // nullopt: no r that is allowed does it.
  std::optional<std::int32_t> explain(std::int64_t i, const HeadBits& got);

 private:
  using Values = std::array<float, kHeadDim>;

  void load(std::int64_t i);
  void rotate(float r, Values& z) const;
  std::optional<std::int32_t> search(const HeadBits& got);
  bool find_sensitive(const HeadBits& got);
  bool is_settled(std::size_t dim) const;
  float error_of_z(std::size_t dim) const;
  float error_of_y(std::size_t dim) const;
  bool explained_by(float r, const HeadBits& got);
  float normalised(std::size_t dim, float r) const;
  float rotated(std::size_t dim, float r) const;
  bool same(const HeadBits& bits, const HeadBits& got) const;
  bool same(std::uint16_t bits, std::uint16_t got) const;

  const LayerCall* call_;
  const InsertionHeads* heads_;
  reference::Choices choices_;
  FactorFreedom freedom_;
  HeadStorage storage_;
  ElementOrder order_;
  reference::RopeTable rope_table_;
  Values one_plus_weight_;

  std::int64_t token_ = -1;  // whose rope_ is
  reference::RopeRow rope_;
  // Of the head at hand.
  Values x_{};
  float scale_ = 1;
  NormFactor factor_;
  HeadBits bits_{};                     // under the contract's r
  float relative_error_ = 0;            // of y, over every r that is allowed
  std::vector<std::size_t> sensitive_;  // dims whose bits may depend on which r is taken
};

}  // namespace zerodiff::compare
