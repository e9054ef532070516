#include "tools/print_json_explain.h"

#include "tools/print_json_diagnosis.h"

namespace zerodiff::tools {
namespace {

Json steps_json(const compare::ElementSteps& steps) {
  Json json{{"input", json_number(steps.input)},
            {"norm_factor", json_number(steps.factor)},
            {"normalised", json_number(steps.normalised)},
            {"rotated", json_number(steps.rotated)},
            {"quantised", json_number(steps.quantised)},
            {"scaled", json_number(steps.scaled)},
            {"value", json_number(steps.value)}};
  if (steps.bits != compare::kAnyBits) json["bits"] = json_bits(steps.bits);
  return json;
}

Json element_json(const ExplainedElement& element) {
  Json where = Json::object();
  for (const auto& [name, value] : element.difference.where) where[name] = value;
  Json json{{"where", where},
            {"expected_bits", json_bits(element.difference.expected_bits)},
            {"got_bits", json_bits(element.difference.got_bits)},
            {"expected", json_number(element.difference.expected)},
            {"got", json_number(element.difference.got)},
            {"scale", json_number(element.history.scale)},
            {"contract", steps_json(element.history.contract)}};
  if (element.history.hypothesis) {
    json["hypothesis"] = steps_json(*element.history.hypothesis);
  }
  return json;
}

Json tensor_json(const ExplainedTensor& tensor) {
  Json json = diagnosis_json(tensor.diagnosis);
  json["history"] = Json::array();
  for (const ExplainedElement& element : tensor.elements) {
    json["history"].push_back(element_json(element));
  }
  return json;
}

Json output_json(const ExplainedOutput& output) {
  Json diagnoses = Json::array();
  for (const ExplainedTensor& tensor : output.tensors) diagnoses.push_back(tensor_json(tensor));
  return {{"output", output.comparison.output},
          {"verdict", name_of(output.comparison.verdict)},
          {"elements", output.comparison.total.elements},
          {"mismatches", output.comparison.total.mismatches},
          {"diagnoses", diagnoses}};
}

}  // namespace

std::string print_json(const PathExplanation& explanation) {
  Json document = json_document("explain");
  Json outputs = Json::array();
  for (const ExplainedOutput& output : explanation.outputs) outputs.push_back(output_json(output));
  Json fp8 = Json::array();
  for (const compare::Fp8Inference& inference : explanation.fp8) {
    fp8.push_back(inference_json(inference));
  }
  document["explanation"] = {{"capture", explanation.capture}, {"path", explanation.path},
                             {"call", explanation.call},       {"outputs", outputs},
                             {"fp8_inference", fp8},           {"warnings", explanation.warnings}};
  return json_text(document);
}

}  // namespace zerodiff::tools
