// Small generated layer calls for the tests of compare.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compare/report.h"
#include "fixtures/generator.h"
#include "fixtures/layer_call.h"

namespace zerodiff::compare {

// 9 scheduled rows of 12, three requests, two kv heads, a few blocks, bfloat16, caches `auto`.
// Some rows are empty, some contexts reach past topk = 2 blocks.
GeneratorOptions small_options(std::uint64_t seed = 1);

// The same with both caches in `format` and scales that are no powers of two and differ.
GeneratorOptions small_fp8_options(ElementType format, std::uint64_t seed = 1);

// Every combination of storage and element size of the K/V cache, with a name.
struct CacheKind {
  std::string name;
  GeneratorOptions options;
};
std::vector<CacheKind> cache_kinds();
std::string name_of_kind(std::size_t index);

std::span<std::int64_t> int64s(Tensor& tensor);

// Rows that are scheduled and not empty and have a slot, in order.
std::vector<std::int64_t> stored_rows(const LayerCall& call);

// The value of a coordinate. Fails the test if there is none.
std::int64_t coordinate(const Coordinates& where, const std::string& name);
std::vector<std::string> coordinate_names(const Coordinates& where);

}  // namespace zerodiff::compare
