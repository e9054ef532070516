// Every kernel of scores, selection and attention, for code objects and registries.
#pragma once

#include "device/kernels/attention_merge.hip.h"
#include "device/kernels/fused_attention.hip.h"
#include "device/kernels/fused_topk.hip.h"
#include "device/kernels/index_score.hip.h"
#include "device/kernels/index_topk.hip.h"
#include "device/kernels/sparse_attention.hip.h"
#include "device/kernels/sparse_block_table.hip.h"
