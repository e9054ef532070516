#include "compare/attention_signatures.h"

#include <algorithm>

namespace zerodiff::compare {
namespace {

// Masks of the model dtypes.
constexpr double kFiniteSentinel = -5e4;

bool is_nan(ElementType type, std::uint16_t bits) {
  const int magnitude = bits & 0x7FFF;
  return magnitude > (type == ElementType::bfloat16 ? 0x7F80 : 0x7C00);
}

// What processors give where they compute a NaN. Other NaNs were put there.
bool is_computed_nan(ElementType type, std::uint16_t bits) {
  const int magnitude = bits & 0x7FFF;
  return magnitude == 0x7FFF || magnitude == (type == ElementType::bfloat16 ? 0x7FC0 : 0x7E00);
}

bool nan_at(const AttendedHead& head, std::size_t d) {
  return is_nan(head.type, head.got[d]);
}

bool all_nan(const AttendedHead& head) {
  return std::ranges::all_of(head.got, [&](std::uint16_t bits) { return is_nan(head.type, bits); });
}

bool all_alike(const AttendedHead& head) {
  return std::ranges::all_of(head.got, [&](std::uint16_t bits) { return bits == head.got[0]; });
}

bool tail_explains(const AttendedHead& head, std::size_t d) {
  return head.tail_not_finite[d] && nan_at(head, d);
}

bool tail_changes(const AttendedHead& head, std::size_t d) {
  return head.tail_not_finite[d];
}

bool has_empty_split(const AttendedHead& head) {
  return head.length == 0 || head.blocks < head.topk;
}

bool empty_split_explains(const AttendedHead& head, std::size_t /*d*/) {
  return has_empty_split(head) && all_nan(head) && is_computed_nan(head.type, head.got[0]);
}

bool empty_split_changes(const AttendedHead& head, std::size_t /*d*/) {
  return has_empty_split(head);
}

bool sentinel_explains(const AttendedHead& head, std::size_t d) {
  return head.length > 0 && head.largest_score < kFiniteSentinel && (head.got[d] & 0x7FFF) == 0;
}

bool sentinel_changes(const AttendedHead& head, std::size_t /*d*/) {
  return head.length > 0 && head.largest_score < kFiniteSentinel;
}

bool unwritten_explains(const AttendedHead& head, std::size_t /*d*/) {
  return all_alike(head) && !is_computed_nan(head.type, head.got[0]);
}

// Which rows nobody wrote is not foretold.
bool nothing_more(const AttendedHead& /*head*/, std::size_t /*d*/) {
  return false;
}

bool first_chunk_explains(const AttendedHead& head, std::size_t /*d*/) {
  return head.length > 0 && all_nan(head);
}

}  // namespace

const std::vector<AttentionSignature>& attention_signatures() {
  static const std::vector<AttentionSignature> signatures{
      {"attn-v-tail-nan", "NaN where V of a dead slot in the last block is not finite",
       tail_explains, tail_changes},
      {"attn-empty-split-nan", "NaN in rows that leave a split without tokens",
       empty_split_explains, empty_split_changes},
      {"attn-finite-inf-sentinel", "zeros where every score is below the mask's finite value",
       sentinel_explains, sentinel_changes},
      {"attn-output-unwritten", "heads that hold one value throughout: nobody wrote them",
       unwritten_explains, nothing_more},
      {"attn-masked-first-chunk-nan", "NaN in whole heads of rows that have tokens",
       first_chunk_explains, nothing_more, true},
  };
  return signatures;
}

}  // namespace zerodiff::compare
