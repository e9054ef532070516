// Every kernel of the insertion stages, for code objects and registries.
#pragma once

#include "device/kernels/fused_insert.hip.h"
#include "device/kernels/index_cache_insert.hip.h"
#include "device/kernels/qk_norm_rope.hip.h"
#include "device/kernels/reshape_and_cache.hip.h"
#include "device/kernels/slot_mapping.hip.h"

// Their names, each as X(name).
#define ZERODIFF_INSERTION_KERNELS(X) \
  X(fused_insert_bf16_auto_auto)      \
  X(fused_insert_bf16_auto_fp8)       \
  X(fused_insert_bf16_fp8_auto)       \
  X(fused_insert_bf16_fp8_fp8)        \
  X(fused_insert_fp16_auto_auto)      \
  X(fused_insert_fp16_auto_fp8)       \
  X(fused_insert_fp16_fp8_auto)       \
  X(fused_insert_fp16_fp8_fp8)        \
  X(index_cache_insert_auto)          \
  X(index_cache_insert_bf16_fp8)      \
  X(index_cache_insert_fp16_fp8)      \
  X(qk_norm_rope_bf16_auto)           \
  X(qk_norm_rope_bf16_fp8)            \
  X(qk_norm_rope_fp16_auto)           \
  X(qk_norm_rope_fp16_fp8)            \
  X(reshape_and_cache_auto)           \
  X(reshape_and_cache_bf16_fp8)       \
  X(reshape_and_cache_fp16_fp8)       \
  X(slot_mapping)
