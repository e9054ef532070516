// What the reference stores of a generated fp8 call, and its fp8 contract report, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compare/fp8_contract.h"
#include "compare/written_elements.h"
#include "reference/layer.h"
#include "tests/compare/small_call.h"
#include "tests/compare/tensor_bits.h"

namespace zerodiff::compare {

inline const Fp8TensorReport& tensor(const Fp8ContractReport& report, const std::string& name) {
  for (const Fp8TensorReport& candidate : report.tensors) {
    if (candidate.tensor == name) return candidate;
  }
  ADD_FAILURE() << "no tensor " << name;
  static const Fp8TensorReport kNone;
  return kNone;
}

inline const Fp8Clause& clause(const Fp8TensorReport& report, const std::string& name) {
  for (const Fp8Clause& candidate : report.clauses) {
    if (candidate.name == name) return candidate;
  }
  ADD_FAILURE() << "no clause " << name << " of " << report.tensor;
  static const Fp8Clause kNone;
  return kNone;
}

inline std::vector<std::string> broken(const Fp8TensorReport& report) {
  std::vector<std::string> names;
  for (const Fp8Clause& candidate : report.clauses) {
    if (candidate.violations > 0) names.push_back(candidate.name);
  }
  return names;
}

// A call, what the reference stores, and a path to spoil.
class Stored {
 public:
  explicit Stored(const GeneratorOptions& options)
      : call(generate_call(options)), path(reference::run_insertion(call, {}, 1)) {}

  Fp8ContractReport report(int threads = 1) const {
    return fp8_contract_report(call, {{"path", &path}}, threads);
  }
  // Every v is 1 instead of random.
  void set_plain_values() {
    for (std::size_t row = 0; row < stored_rows(call).size(); ++row) {
      for (std::int64_t i = 0; i < call.config.num_kv_heads * kHeadDim; ++i) {
        set_bits(call.qkv, v_input(row, 0, i), 0x3F80);
      }
    }
  }
  void run_again() { path = reference::run_insertion(call, {}, 1); }

  // Flat index, in k_cache or v_cache, of an element of the row-th row that stores.
  std::int64_t element(CacheOutput output, std::size_t row, std::int64_t head,
                       std::int64_t dim) const {
    CacheElement where;
    where.plane = output == CacheOutput::v_cache ? kValuePlane : kKeyPlane;
    where.slot = written_slots(call).kv_slot_of_row[static_cast<std::size_t>(token(row))];
    where.head = head;
    where.dim = dim;
    return CacheGeometry(call, output).flat_index(where);
  }
  std::int64_t token(std::size_t row) const { return stored_rows(call).at(row); }

  // Element of v in the packed row of the row-th row that stores.
  std::int64_t v_input(std::size_t row, std::int64_t head, std::int64_t dim) const {
    const LayerConfig& config = call.config;
    return token(row) * config.row_elements() +
           (config.num_heads + config.num_kv_heads + head) * kHeadDim + dim;
  }

  LayerCall call;
  Outputs path;
};

}  // namespace zerodiff::compare
