#include "compare/fp8_inference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "compare/diagnosis.h"
#include "compare/element_order.h"
#include "reference/number_formats.h"

namespace zerodiff::compare {
namespace {

enum class Scaling : std::uint8_t { reciprocal, divide, inverted, ignored };

// One contract that the codes could have been written by.
struct Candidate {
  ElementType format;
  Scaling scaling;
  QuantizeFrom source;
  Overflow overflow;
  ScaleGranularity granularity;
};

// Whether each sample has the code that a candidate gives.
struct Trial {
  Candidate candidate;
  std::vector<bool> hits;
  std::int64_t matches = 0;
};

constexpr std::array kFormats{ElementType::float8_e4m3fn, ElementType::float8_e4m3fnuz,
                              ElementType::float8_e5m2, ElementType::float8_e5m2fnuz};
constexpr std::array kScalings{Scaling::reciprocal, Scaling::divide, Scaling::inverted,
                               Scaling::ignored};
constexpr std::array kSources{QuantizeFrom::model_dtype, QuantizeFrom::fp32};
constexpr std::array kOverflows{Overflow::saturate, Overflow::nan, Overflow::inf};
constexpr std::array kGranularities{ScaleGranularity::tensor, ScaleGranularity::head_slot};

bool possible(const Candidate& candidate, const DeclaredFp8& declared) {
  if (candidate.overflow == Overflow::inf && !reference::fp8_range(candidate.format).has_infinity) {
    return false;
  }
  if (!declared.scaled && candidate.scaling != Scaling::ignored) return false;
  if (!declared.source_matters && candidate.source != QuantizeFrom::model_dtype) return false;
  // One scale for all leaves nothing to tell apart.
  const bool per_slot = declared.scaled && declared.granularity == ScaleGranularity::head_slot;
  return per_slot || candidate.granularity == ScaleGranularity::tensor;
}

std::vector<Candidate> candidates_for(const DeclaredFp8& declared) {
  std::vector<Candidate> list;
  for (const ElementType format : kFormats) {
    for (const Scaling scaling : kScalings) {
      for (const QuantizeFrom source : kSources) {
        for (const Overflow overflow : kOverflows) {
          for (const ScaleGranularity granularity : kGranularities) {
            const Candidate candidate{format, scaling, source, overflow, granularity};
            if (possible(candidate, declared)) list.push_back(candidate);
          }
        }
      }
    }
  }
  return list;
}

float scaled_value(const Fp8Sample& sample, const Candidate& candidate) {
  const float value = candidate.source == QuantizeFrom::fp32 ? sample.z : sample.rounded;
  const float scale =
      candidate.granularity == ScaleGranularity::tensor ? sample.first_scale : sample.scale;
  switch (candidate.scaling) {
    case Scaling::reciprocal:
      return value * (1.0F / scale);
    case Scaling::divide:
      return value / scale;
    case Scaling::inverted:
      return value * scale;
    case Scaling::ignored:
      break;
  }
  return value;
}

Trial try_candidate(const std::vector<Fp8Sample>& samples, const Candidate& candidate) {
  std::vector<float> values;
  values.reserve(samples.size());
  for (const Fp8Sample& sample : samples) values.push_back(scaled_value(sample, candidate));
  std::vector<std::uint8_t> codes(samples.size());
  reference::encode_fp8(candidate.format, values, candidate.overflow, codes);
  const ElementOrder order = element_order(candidate.format);
  Trial trial{candidate, std::vector<bool>(samples.size()), 0};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool hit =
        codes[i] == samples[i].code || (order.is_nan(codes[i]) && order.is_nan(samples[i].code));
    trial.hits[i] = hit;
    trial.matches += hit ? 1 : 0;
  }
  return trial;
}

using ValueOf = std::function<std::string(const Candidate&)>;

std::string direction_of(const Candidate& candidate) {
  if (candidate.scaling == Scaling::inverted) return "multiplied";
  return candidate.scaling == Scaling::ignored ? "ignored" : "divided";
}

std::string operation_of(const Candidate& candidate) {
  if (candidate.scaling == Scaling::reciprocal) return "multiply_reciprocal";
  return candidate.scaling == Scaling::divide ? "divide" : "none";
}

class Inference {
 public:
  Inference(const std::vector<Fp8Sample>& samples, const DeclaredFp8& declared)
      : declared_(declared) {
    for (const Candidate& candidate : candidates_for(declared)) {
      trials_.push_back(try_candidate(samples, candidate));
    }
    best_ = &*std::ranges::max_element(trials_, {}, &Trial::matches);
    result_.elements = static_cast<std::int64_t>(samples.size());
    result_.unexplained = result_.elements - best_->matches;
    result_.found = !samples.empty() && static_cast<double>(best_->matches) >=
                                            kExplainedShare * static_cast<double>(samples.size());
  }

  Fp8Inference run() {
    add("format", std::string(name_of(declared_.format)),
        [](const Candidate& c) { return std::string(name_of(c.format)); });
    if (declared_.scaled) {
      add("direction", "divided", direction_of);
      add("operation", std::string(name_of(declared_.scale_op)), operation_of);
    }
    if (declared_.source_matters) {
      add("source", std::string(name_of(declared_.source)),
          [](const Candidate& c) { return std::string(name_of(c.source)); });
    }
    add("overflow", std::string(name_of(declared_.overflow)),
        [](const Candidate& c) { return std::string(name_of(c.overflow)); });
    if (declared_.scaled) {
      add("granularity", std::string(name_of(declared_.granularity)),
          [](const Candidate& c) { return std::string(name_of(c.granularity)); });
    }
    return result_;
  }

 private:
  // The best candidate with another value, or nullptr if there is none.
  const Trial* best_other(const ValueOf& value_of) const {
    const std::string value = value_of(best_->candidate);
    const Trial* other = nullptr;
    for (const Trial& trial : trials_) {
      if (value_of(trial.candidate) == value) continue;
      if (other == nullptr || trial.matches > other->matches) other = &trial;
    }
    return other;
  }

  void add(std::string name, std::string declared, const ValueOf& value_of) {
    InferredClause clause;
    clause.name = std::move(name);
    clause.declared = std::move(declared);
    clause.inferred = value_of(best_->candidate);
    const Trial* const other = best_other(value_of);
    if (other != nullptr) {
      for (std::size_t i = 0; i < best_->hits.size(); ++i) {
        clause.deciding += best_->hits[i] != other->hits[i] ? 1 : 0;
      }
      clause.told = result_.found && other->matches < best_->matches;
    } else {
      clause.told = result_.found;
    }
    if (!clause.told) clause.inferred = "cannot be told apart";
    clause.agrees = !clause.told || clause.inferred == clause.declared;
    result_.clauses.push_back(std::move(clause));
  }

  const DeclaredFp8& declared_;
  std::vector<Trial> trials_;
  const Trial* best_ = nullptr;
  Fp8Inference result_;
};

}  // namespace

Fp8Inference infer_fp8(const std::vector<Fp8Sample>& samples, const DeclaredFp8& declared) {
  return Inference(samples, declared).run();
}

}  // namespace zerodiff::compare
