// The fp8 contract that the codes of one tensor tell, clause by clause. Part of compare/report.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zerodiff::compare {

// One clause. Elements *decide* a clause if the best contract with this value of the clause gives
// their code and the best one with any other value does not, or the other way round.
struct InferredClause {
  std::string name;      // "format", "direction", "operation", "source", "overflow", "granularity"
  std::string declared;  // as the call declares it
  std::string inferred;  // "e4m3fn", "divided", ...; "cannot be told apart" without a decision
  std::int64_t deciding = 0;  // 0 as well if there is nothing to tell it from
  bool told = true;           // false: cannot be told apart on these data
  bool agrees = true;         // inferred as declared; true if it cannot be told
};

struct Fp8Inference {
  std::string path;
  std::string tensor;            // "k", "v", "index_k", "index_q"
  std::int64_t elements = 0;     // looked at
  std::int64_t unexplained = 0;  // whose code the inferred contract does not give
  std::vector<InferredClause> clauses;
  // Whether the inferred contract gives at least 95 % of the codes; else the clauses say nothing.
  bool found = false;
};

}  // namespace zerodiff::compare
