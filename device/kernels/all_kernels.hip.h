// Every kernel of the insertion stages, for code objects and registries.
#pragma once

#include "device/kernels/fused_insert.hip.h"
#include "device/kernels/index_cache_insert.hip.h"
#include "device/kernels/qk_norm_rope.hip.h"
#include "device/kernels/reshape_and_cache.hip.h"
#include "device/kernels/slot_mapping.hip.h"
