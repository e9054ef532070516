// The clauses of the fp8 scale contract for one tensor of one path, element by element
// (numerics.md section 6, "A writer conforms when").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "compare/report.h"
#include "fixtures/layer_call.h"
#include "reference/scale_contract.h"

namespace zerodiff::compare {

// What is being checked, and by which contract.
struct Fp8TensorSpec {
  std::string path;
  std::string tensor;  // "k", "v", "index_k", "index_q"
  ElementType format = ElementType::float8_e4m3fn;
  reference::ScaleContract contract;  // of this tensor: index tensors always saturate
  std::string declared_code;          // the contract of the codes in words
  std::string declared_scale;         // the granularity; unused for index tensors
  bool index = false;                 // unit scale, and a clause that says so
  // Only for index tensors: the scale whose effect index_unit_scale tries as an explanation.
  std::optional<float> suspected_scale;
};

// One written element.
struct Fp8Element {
  std::uint8_t code = 0;
  float input = 0;  // x̂: the value that the contract quantises
  float scale = 1;
  std::int64_t token = 0;
  std::int64_t head = 0;
  std::int64_t dim = 0;
};

// Collects elements in ascending order of (token, head, dim).
class Fp8TensorCheck {
 public:
  explicit Fp8TensorCheck(Fp8TensorSpec spec) : spec_(std::move(spec)) {}

  void add(const Fp8Element& element);
  // A scale that elements were written with, once for each scale in use.
  void add_scale(float scale);
  // Adds what `later` collected, all of it after this one's elements.
  void append(const Fp8TensorCheck& later);

  // Clauses "code", "nan", "error_bound", and "scale" or (index tensors) "index_unit_scale".
  //
  // error_bound is |decode(code)*scale - x̂| <= (step*scale/2)(1 + 2^-20) in binary64. It is not
  // held against an element whose code is the contract's: the contract's own binary32 roundings
  // (the reciprocal, the product) can reach past it by a few parts in 2^20 where x̂ lies next to the
  // middle of two codes; such elements are counted in the detail. index_unit_scale: the error at
  // unit scale is at most a whole step, so that no choice of rounding breaks it.
  Fp8TensorReport report() const;

 private:
  struct Violation {
    Fp8Element element;
    std::uint8_t contract_code = 0;
  };
  struct Clause {
    std::int64_t checked = 0;
    std::int64_t violations = 0;
    std::optional<Violation> first;

    void check(bool holds, const Violation& violation);
    void append(const Clause& later);
  };

  void count(const Fp8Element& element, std::uint8_t contract_code);
  void check_code(const Violation& seen);
  void check_error(const Violation& seen);
  bool overflows(const Fp8Element& element, std::uint8_t contract_code) const;
  std::string code_detail() const;
  std::string error_detail() const;
  std::string scale_detail() const;
  std::string unit_scale_detail() const;

  Fp8TensorSpec spec_;
  Fp8TensorReport counts_;
  Clause code_;
  Clause nan_;
  Clause error_bound_;
  Clause scale_;
  Clause unit_scale_;
  std::int64_t off_by_one_ = 0;
  std::int64_t contract_beyond_bound_ = 0;
  std::int64_t explained_by_scale_ = 0;
  std::optional<float> bad_scale_;
};

}  // namespace zerodiff::compare
