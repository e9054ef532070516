#include "tools/print_json_diagnosis.h"

namespace zerodiff::tools {
namespace {

Json explanation_json(const compare::Explanation& explanation) {
  return {{"id", explanation.id},       {"detail", explanation.detail},
          {"stage", explanation.stage}, {"explained", explanation.explained},
          {"of", explanation.of},       {"contradicted", explanation.contradicted}};
}

}  // namespace

Json diagnosis_json(const compare::Diagnosis& diagnosis) {
  Json ties = Json::array();
  for (const compare::Explanation& tie : diagnosis.ties) ties.push_back(explanation_json(tie));
  Json json{{"id", diagnosis.id()},
            {"tensor", diagnosis.tensor},
            {"stage", diagnosis.stage},
            {"mismatches", diagnosis.mismatches},
            {"pattern", diagnosis.pattern},
            {"tokens", diagnosis.tokens},
            {"stray_slots", diagnosis.stray_slots},
            {"ties", ties}};
  if (diagnosis.best) json["best"] = explanation_json(*diagnosis.best);
  if (diagnosis.runner_up) json["runner_up"] = explanation_json(*diagnosis.runner_up);
  return json;
}

Json inference_json(const compare::Fp8Inference& inference) {
  Json clauses = Json::array();
  for (const compare::InferredClause& clause : inference.clauses) {
    clauses.push_back({{"name", clause.name},
                       {"declared", clause.declared},
                       {"inferred", clause.inferred},
                       {"deciding", clause.deciding},
                       {"told", clause.told},
                       {"agrees", clause.agrees}});
  }
  return {{"tensor", inference.tensor},
          {"found", inference.found},
          {"elements", inference.elements},
          {"unexplained", inference.unexplained},
          {"clauses", clauses}};
}

}  // namespace zerodiff::tools
