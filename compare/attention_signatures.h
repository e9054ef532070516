// Mistakes of attention kernels that show as such in what they left, without evaluating anything:
// NaN, zeros and memory that nobody wrote (docs/faults.md, 1.8).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fixtures/layer_config.h"

namespace zerodiff::compare {

// One query head of one row at fault.
struct AttendedHead {
  ElementType type = ElementType::bfloat16;
  std::span<const std::uint16_t> got;  // [128]
  std::int64_t length = 0;             // live tokens of the row
  std::int64_t blocks = 0;             // of the row
  std::int64_t topk = 0;
  double largest_score = 0;  // natural units; meaningless for an empty row
  // Dims in which V of a dead slot of the row's last block is not finite.
  std::span<const bool> tail_not_finite;
};

struct AttentionSignature {
  std::string id;      // a class of docs/faults.md
  std::string detail;  // in words
  // Whether the signature says that element `d` of the head is what it is.
  bool (*explains)(const AttendedHead& head, std::size_t d);
  // Whether the mistake would have changed it, right or not.
  bool (*changes)(const AttendedHead& head, std::size_t d);
  bool last_resort = false;  // says little: anything else that explains as much is preferred
};

// In order of preference among those that explain the same.
const std::vector<AttentionSignature>& attention_signatures();

}  // namespace zerodiff::compare
