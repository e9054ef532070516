// The bugs that can be planted in the kernels, and the switch that turns one on.
#pragma once

#include <cstdint>

namespace zerodiff::device {

// Name in the kernels (ZERODIFF_PLANT), fault class of docs/faults.md, what the kernel then does.
#define ZERODIFF_PLANTED_BUGS(X)                                                                  \
  X(fp8_fnuz_read_as_fn, "fp8-fnuz-read-as-fn", "encodes fnuz where fn is declared")              \
  X(fp8_fn_read_as_fnuz, "fp8-fn-read-as-fnuz", "encodes fn where fnuz is declared")              \
  X(fp8_negzero_to_nan, "fp8-negzero-to-nan", "keeps the sign of a zero in fnuz formats")         \
  X(fp8_overflow_to_nan, "fp8-overflow-to-nan", "casts without saturation")                       \
  X(fp8_early_saturation, "fp8-early-saturation", "takes exponent field 15 for overflow")         \
  X(fp8_round_half_away, "fp8-round-half-away", "rounds ties away from zero")                     \
  X(fp8_truncation, "fp8-round-half-away", "truncates")                                           \
  X(fp8_rounding_chain, "fp8-rounding-chain", "drops or adds the rounding before the fp8 cast")   \
  X(fp8_byte_numeric_cast, "fp8-byte-numeric-cast", "stores the value as an integer")             \
  X(fp8_tiny_shift_ub, "fp8-tiny-shift-ub", "shifts tiny mantissas by their distance modulo 32")  \
  X(scale_inverted, "scale-inverted", "multiplies by the scale")                                  \
  X(scale_ignored_write, "scale-ignored-write", "stores x instead of x / scale")                  \
  X(scale_write_read_asymmetry, "scale-write-read-asymmetry", "scales K, but not V")              \
  X(scale_index_wrong, "scale-index-wrong", "takes head 0's per-slot scales for all heads")       \
  X(scale_recip_vs_div, "scale-recip-vs-div",                                                     \
    "divides where the reciprocal is declared, and back")                                         \
  X(slot_neg1_wraps_last, "slot-neg1-wraps-last", "stores unmapped rows in the pool's last slot") \
  X(slot_pad_to_zero, "slot-pad-to-zero", "stores unmapped rows in slot 0")                       \
  X(slot_neg_oob, "slot-neg-oob", "computes an address of a negative slot and stores K there")    \
  X(slot_block_size_mismatch, "slot-block-size-mismatch", "rebases blocks of 64")                 \
  X(slot_int32_overflow, "slot-int32-overflow", "computes cache offsets in 32 bits")              \
  X(slot_duplicate_race, "slot-duplicate-race", "gives odd rows the slot of the row before")      \
  X(kv_write_dropped, "kv-write-dropped", "drops V of all but the first three rows of a tile")    \
  X(kv_write_to_copy, "kv-write-to-copy", "stores neither K nor V")                               \
  X(block_table_stale_tail, "block-table-stale-tail", "trusts slots past num_tokens")             \
  X(kv_shuffle_x_mismatch, "kv-shuffle-x-mismatch", "lays K out with x = 16 in 16-bit caches")    \
  X(kv_v_layout, "kv-v-layout", "lays V out as K")                                                \
  X(kv_writer_flat_reader_shuffle, "kv-writer-flat-reader-shuffle", "stores K token by token")    \
  X(kv_plane_offset, "kv-plane-offset", "stores V 8 pages early, where K pages lie")              \
  X(kv_head_offset_missing, "kv-head-offset-missing", "stores all kv heads as head 0")            \
  X(stride_ignored, "stride-ignored", "takes the pages of a strided pool for contiguous")         \
  X(index_cache_not_written, "index-cache-not-written", "does not store index K")                 \
  X(norm_gemma_offset_missing, "norm-gemma-offset-missing", "multiplies by w instead of 1 + w")   \
  X(norm_gemma_offset_bf16, "norm-gemma-offset-bf16", "rounds 1 + w to bfloat16")                 \
  X(norm_wrong_weight, "norm-wrong-weight", "norms k with q's weight")                            \
  X(norm_weight_truncated, "norm-weight-truncated", "rounds weights to bfloat16")                 \
  X(norm_eps_placement, "norm-eps-placement", "adds eps outside of the square root")              \
  X(norm_rounding_point, "norm-rounding-point", "rounds x * r to bfloat16")                       \
  X(rope_interleave_swap, "rope-interleave-swap", "rotates pairs (2i, 2i+1)")                     \
  X(rope_rotary_dim_ignored, "rope-rotary-dim-ignored", "rotates all 128 elements")               \
  X(rope_pair_offset, "rope-pair-offset", "takes the partner 64 elements away")                   \
  X(rope_qk_cross, "rope-qk-cross", "takes the upper half of q from k")                           \
  X(rope_position_wrong, "rope-position-wrong", "uses row 0's position for all rows")             \
  X(rope_table_dtype, "rope-table-dtype", "rounds cosines to bfloat16")                           \
  X(rope_table_oob, "rope-table-oob", "reads table rows of negative positions")                   \
  X(rope_writeback_missing, "rope-writeback-missing", "caches k unrotated")                       \
  X(rope_inplace_race, "rope-inplace-race", "reads elements that other lanes replace")            \
  X(divergent_collective, "divergent-collective", "shuffles among the rotated lanes only")        \
  X(wave_width, "wave-width", "reduces over 32 lanes, which hold two rows")                       \
  X(race_missing_sync, "race-missing-sync", "reads V rows from LDS without a barrier")            \
  X(fastmath_nan_guard, "fastmath-nan-guard", "loses the NaN tests of the conversions")           \
  X(uninit_read, "uninit-read", "reads LDS padding that nobody wrote")                            \
  X(qkv_row_pitch_without_index, "qkv-row-pitch-without-index", "forgets the index heads' pitch") \
  X(index_slot_map_swapped, "index-slot-map-swapped", "stores index K by slot_mapping")           \
  X(index_k_unnormed, "index-k-unnormed", "stores index K as it came")

// The same for the kernels of scores, selection and attention.
#define ZERODIFF_PLANTED_ATTENTION_BUGS(X)                                                         \
  X(index_score_formula, "index-score-formula", "takes the largest magnitude of a block's dots")   \
  X(index_score_length_cliff, "index-score-length-cliff", "reads blocks 0 and 1 for all others")   \
  X(block_table_oob_column, "block-table-oob-column", "reads the next column of the block table")  \
  X(topk_layout_transposed, "topk-layout-transposed", "writes tokens before kv heads")             \
  X(topk_strides_ignored, "topk-strides-ignored", "takes the rows of padding for not being there") \
  X(topk_block_granularity, "topk-block-granularity", "takes pages for blocks")                    \
  X(topk_candidate_overflow, "topk-candidate-overflow", "keeps three candidates")                  \
  X(topk_invalid_in_prefix, "topk-invalid-in-prefix", "selects one block too few")                 \
  X(topk_nonfinite_scores, "topk-nonfinite-scores", "takes NaN for the best score")                \
  X(topk_order_contract, "topk-order-contract", "leaves the own block where it ranks")             \
  X(topk_sentinel_deref, "topk-sentinel-deref", "looks up block -1")                               \
  X(topk_k_exceeds_n, "topk-k-exceeds-n", "selects topk blocks, whatever there is")                \
  X(topk_head_padding, "topk-head-padding", "rounds index heads up to a power of two")             \
  X(topk_stale_reuse, "topk-stale-reuse", "leaves unused entries as they were")                    \
  X(topk_forced_block_missing, "topk-forced-block-missing", "forces no local blocks")              \
  X(sparse_table_page_expansion, "sparse-table-page-expansion", "takes V pages for K pages")       \
  X(attn_v_tail_nan, "attn-v-tail-nan", "multiplies dead tokens' V by zero")                       \
  X(attn_tail_unmasked, "attn-tail-unmasked", "counts dead tokens in the softmax")                 \
  X(attn_empty_split_nan, "attn-empty-split-nan", "merges the splits of a row without blocks")     \
  X(attn_finite_inf_sentinel, "attn-finite-inf-sentinel", "begins a maximum at -5e4")              \
  X(attn_causal_offset, "attn-causal-offset", "leaves out the token itself")                       \
  X(attn_sm_scale, "attn-sm-scale", "multiplies by log2(e) twice")                                 \
  X(attn_fp8_p_range, "attn-fp8-p-range", "rounds weights to e4m3")                                \
  X(attn_shape_cliff, "attn-shape-cliff", "drops a token of contexts from 241 to 255")             \
  X(attn_output_unwritten, "attn-output-unwritten", "skips rows without blocks")                   \
  X(scale_ignored_read, "scale-ignored-read", "reads V without its scale")                         \
  X(scale_double_applied, "scale-double-applied", "multiplies by the scale twice")                 \
  X(fp8_nan_decodes_finite, "fp8-nan-decodes-finite", "decodes NaN codes as numbers")

enum class PlantedBug : std::uint8_t {
  none,
#define ZERODIFF_PLANTED_BUG(name, id, what) name,
  ZERODIFF_PLANTED_BUGS(ZERODIFF_PLANTED_BUG) ZERODIFF_PLANTED_ATTENTION_BUGS(ZERODIFF_PLANTED_BUG)
#undef ZERODIFF_PLANTED_BUG
};

namespace planted {

// What the kernels look at. Changes only between launches.
inline PlantedBug active = PlantedBug::none;
// Of the call that runs, for bugs that need what kernels are not told.
inline std::int64_t pool_slots = 0;
inline std::int64_t num_rows = 0;

}  // namespace planted
}  // namespace zerodiff::device
