// A layer call for measurements, from a line such as
// "tokens=65536,heads=16,kv_heads=1,dtype=bf16,cache=fp8,slots=random".
#pragma once

#include <string_view>

#include "fixtures/generator.h"
#include "fixtures/layer_call.h"

namespace zerodiff::tools {

enum class SlotOrder {
  contiguous,  // row t goes to slot t: contiguous in each request
  random,      // a permutation of these
  table,       // as the block table says: contiguous in a block, blocks anywhere
};

struct BenchShape {
  GeneratorOptions options;
  SlotOrder slots = SlotOrder::contiguous;
};

// Keys, in any order, with the values that they have when they are not given:
//   tokens=1024 requests=1 heads=16 kv_heads=1 index_heads=<kv_heads> rotary=64 topk=16
//   dtype=bf16|fp16 cache=bf16|fp16|fp8 (e4m3fn; a 16-bit name must be the dtype's)
//   context=none|N: tokens already cached in each request; with a number the stages after insertion
//   run, too, and slots are the block table's
//   slots=contiguous|random phase=decode|prefill storage=separate|block_contiguous seed=1
// Throws Error (kUsage) for anything else.
BenchShape parse_bench_shape(std::string_view text);

// A valid call of that shape. Throws what generate_call throws.
LayerCall make_bench_call(const BenchShape& shape);

}  // namespace zerodiff::tools
