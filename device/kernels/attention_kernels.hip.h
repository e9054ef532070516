// Every kernel of scores, selection and attention, for code objects and registries.
#pragma once

#include "device/kernels/attention_merge.hip.h"
#include "device/kernels/fused_attention.hip.h"
#include "device/kernels/fused_topk.hip.h"
#include "device/kernels/index_score.hip.h"
#include "device/kernels/index_topk.hip.h"
#include "device/kernels/sparse_attention.hip.h"
#include "device/kernels/sparse_block_table.hip.h"

// Their names, each as X(name).
#define ZERODIFF_ATTENTION_KERNELS(X) \
  X(attention_merge_bf16)             \
  X(attention_merge_fp16)             \
  X(fused_attention_bf16_auto_h4)     \
  X(fused_attention_bf16_auto_h8)     \
  X(fused_attention_bf16_auto_h16)    \
  X(fused_attention_bf16_fp8_h4)      \
  X(fused_attention_bf16_fp8_h8)      \
  X(fused_attention_bf16_fp8_h16)     \
  X(fused_attention_fp16_auto_h4)     \
  X(fused_attention_fp16_auto_h8)     \
  X(fused_attention_fp16_auto_h16)    \
  X(fused_attention_fp16_fp8_h4)      \
  X(fused_attention_fp16_fp8_h8)      \
  X(fused_attention_fp16_fp8_h16)     \
  X(fused_topk)                       \
  X(index_score_bf16_r4)              \
  X(index_score_bf16_r16)             \
  X(index_score_fp16_r4)              \
  X(index_score_fp16_r16)             \
  X(index_score_fp8_r4)               \
  X(index_score_fp8_r16)              \
  X(index_topk)                       \
  X(sparse_attention_bf16_auto_h4)    \
  X(sparse_attention_bf16_auto_h8)    \
  X(sparse_attention_bf16_auto_h16)   \
  X(sparse_attention_bf16_fp8_h4)     \
  X(sparse_attention_bf16_fp8_h8)     \
  X(sparse_attention_bf16_fp8_h16)    \
  X(sparse_attention_fp16_auto_h4)    \
  X(sparse_attention_fp16_auto_h8)    \
  X(sparse_attention_fp16_auto_h16)   \
  X(sparse_attention_fp16_fp8_h4)     \
  X(sparse_attention_fp16_fp8_h8)     \
  X(sparse_attention_fp16_fp8_h16)    \
  X(sparse_block_table)
