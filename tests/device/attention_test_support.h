// Layer calls, stored inputs and comparisons for the tests of scores, selection and attention.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/backend.h"
#include "device/host/host_launch.h"
#include "device/paths/attention_stages.h"
#include "fixtures/generator.h"
#include "fixtures/layer_call.h"

namespace zerodiff::device {

// Options of a valid call with the given heads: one request, a prefill of few rows.
GeneratorOptions attention_options(std::int64_t num_heads, std::int64_t num_kv_heads,
                                   std::uint64_t seed = 1);

// A call and what its insertion left.
struct AttentionCase {
  LayerCall call;
  Outputs inserted;
};
AttentionCase attention_case(const GeneratorOptions& options);

// The same with q, index_q and caches of nothing but zeros.
AttentionCase zero_case(const GeneratorOptions& options);

// The stages on a host backend of its own, without faults (a test failure otherwise).
Outputs run_stages(const AttentionCase& of, PathKind kind, const AttentionOptions& options = {},
                   const ExecutorOptions& executor = {.threads = 1});

inline constexpr PathKind kPathKinds[] = {PathKind::unfused, PathKind::fused};

// "" if topk_index, sparse_block_table, sparse_context_lens, attn_output and index_score agree bit
// for bit, NaNs being equal to each other; otherwise what differs first.
std::string attention_difference(const Outputs& a, const Outputs& b);

// Request of a scheduled row, and the slot of one of its positions (before any rebase).
std::int64_t request_of(const LayerCall& call, std::int64_t row);
std::int64_t slot_of(const LayerCall& call, std::int64_t request, std::int64_t position);

// An element of a cache by numerics.md section 8; `slot` is one before any rebase.
enum class Plane : std::uint8_t { k, v };
void set_kv(AttentionCase& of, Plane plane, std::int64_t slot, std::int64_t kv_head,
            std::int64_t dim, double value);
void copy_kv(const AttentionCase& from, AttentionCase& to, Plane plane, std::int64_t slot,
             std::int64_t kv_head, std::int64_t dim);
void set_index_k(AttentionCase& of, std::int64_t slot, std::int64_t dim, double value);
void set_q(AttentionCase& of, std::int64_t row, std::int64_t head, std::int64_t dim, double value);
void set_index_q(AttentionCase& of, std::int64_t row, std::int64_t head, std::int64_t dim,
                 double value);

// `value`, which the type must be able to hold, as its bits.
std::uint16_t bits_of(ElementType type, double value);
// Bits of the model dtype as a number.
float model_value(ElementType type, std::uint16_t bits);

// attn_output of one (row, query head, dim).
float output_at(const LayerCall& call, const Outputs& outputs, std::int64_t row, std::int64_t head,
                std::int64_t dim);

}  // namespace zerodiff::device
