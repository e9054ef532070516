#include "tools/print_json.h"

#include "tools/json_values.h"
#include "tools/print_json_diagnosis.h"
#include "tools/print_json_legal.h"
#include "tools/print_json_stage.h"

namespace zerodiff::tools {
namespace {

using compare::CaseReport;
using compare::Comparison;

Json difference_json(const compare::ElementDifference& difference) {
  Json where = Json::object();
  for (const auto& [name, value] : difference.where) where[name] = value;
  return {{"flat_index", difference.flat_index},
          {"where", where},
          {"expected_bits", json_bits(difference.expected_bits)},
          {"got_bits", json_bits(difference.got_bits)},
          {"expected", json_number(difference.expected)},
          {"got", json_number(difference.got)},
          {"abs_error", json_number(difference.abs_error)},
          {"ulp", json_ulp(difference.ulp)}};
}

// The counts of a tally, for a comparison and for each of its regions alike.
Json tally_json(const compare::Tally& tally) {
  return {{"elements", tally.elements},
          {"mismatches", tally.mismatches},
          {"max_abs_error", json_number(tally.max_abs_error)},
          {"max_ulp", json_ulp(tally.max_ulp)},
          {"worst", tally.worst ? difference_json(*tally.worst) : Json::object()}};
}

Json region_json(const compare::Region& region) {
  Json json = {{"name", region.name}, {"counts", region.counts}};
  json.update(tally_json(region.tally));
  json["nan_mismatches"] = region.tally.nan_mismatches;
  json["first"] = Json::array();
  for (const auto& difference : region.tally.first) {
    json["first"].push_back(difference_json(difference));
  }
  return json;
}

Json selected_json(const compare::SelectedBlock& selected) {
  return {{"block", selected.block},
          {"score", selected.score ? json_number(*selected.score) : Json()},
          {"forced", selected.forced}};
}

Json selected_json(const std::optional<compare::SelectedBlock>& selected) {
  return selected ? selected_json(*selected) : Json();
}

Json selected_json(const std::vector<compare::SelectedBlock>& blocks) {
  Json json = Json::array();
  for (const compare::SelectedBlock& block : blocks) json.push_back(selected_json(block));
  return json;
}

Json topk_json(const compare::TopkDifference& difference) {
  Json first = Json::array();
  for (const compare::TopkRowDifference& row : difference.first) {
    first.push_back({{"token", row.token},
                     {"request", row.request},
                     {"position", row.position},
                     {"kv_head", row.kv_head},
                     {"entered", selected_json(row.entered)},
                     {"left", selected_json(row.left)},
                     {"worst_selected", selected_json(row.worst_selected)},
                     {"best_left_out", selected_json(row.best_left_out)},
                     {"gap", row.gap ? json_number(*row.gap) : Json()}});
  }
  return {
      {"rows", difference.rows}, {"reordered_rows", difference.reordered_rows}, {"first", first}};
}

Json comparison_json(const Comparison& comparison) {
  Json json = {{"output", comparison.output},
               {"path", comparison.path},
               {"against", comparison.against},
               {"scope", name_of(comparison.scope)},
               {"verdict", name_of(comparison.verdict)},
               {"gates", comparison.gates},
               {"note", comparison.note}};
  json.update(tally_json(comparison.total));
  Json regions = Json::array();
  for (const compare::Region& region : comparison.regions) regions.push_back(region_json(region));
  json["detail"] = {{"nan_mismatches", comparison.total.nan_mismatches}, {"regions", regions}};
  if (comparison.legal) json["detail"]["legal"] = legal_json(*comparison.legal);
  if (comparison.judged_stage) json["detail"]["stage"] = stage_json(*comparison.judged_stage);
  if (comparison.topk) json["detail"]["topk"] = topk_json(*comparison.topk);
  for (const compare::Diagnosis& diagnosis : comparison.diagnoses) {
    json["detail"]["diagnoses"].push_back(diagnosis_json(diagnosis));
  }
  return json;
}

Json slot_place_json(const compare::SlotPlace& place) {
  return {{"slot", place.slot}, {"page", place.page}, {"offset", place.offset}};
}

Json slot_difference_json(const std::optional<compare::SlotDifference>& difference) {
  if (!difference) return nullptr;
  return {{"row", difference->row},
          {"request", difference->request},
          {"position", difference->position},
          {"eager", slot_place_json(difference->eager)},
          {"graph_safe", slot_place_json(difference->graph_safe)}};
}

Json slot_map_json(const compare::SlotMapReport& map) {
  return {{"verdict", name_of(map.verdict)},
          {"reason", map.reason},
          {"scheduled_rows", map.scheduled_rows},
          {"stored_rows", map.stored_rows},
          {"padding_rows", map.padding_rows},
          {"capacity", map.capacity},
          {"graph_buffer_present", map.graph_buffer_present},
          {"graph_buffer_used", map.graph_buffer_used},
          {"graph_buffer_length", map.graph_buffer_length},
          {"differing_rows", map.differing_rows},
          {"stale_entries", map.stale_entries},
          {"negative_became_real", map.negative_became_real},
          {"duplicates", map.duplicates},
          {"out_of_range", map.out_of_range},
          {"first_difference", slot_difference_json(map.first_difference)},
          {"block_table_checked", map.block_table_checked},
          {"block_table_disagreements", map.block_table_disagreements},
          {"index_block_table_disagreements", map.index_block_table_disagreements}};
}

Json fp8_tensor_json(const compare::Fp8TensorReport& tensor) {
  Json clauses = Json::array();
  for (const compare::Fp8Clause& clause : tensor.clauses) {
    clauses.push_back({{"name", clause.name},
                       {"declared", clause.declared},
                       {"applies", clause.applies},
                       {"checked", clause.checked},
                       {"violations", clause.violations},
                       {"detail", clause.detail}});
  }
  Json json{{"path", tensor.path},
            {"tensor", tensor.tensor},
            {"format", tensor.format},
            {"conforms", tensor.conforms},
            {"gates", tensor.gates},
            {"written", tensor.written},
            {"saturated", tensor.saturated},
            {"nan_codes", tensor.nan_codes},
            {"zero_codes", tensor.zero_codes},
            {"subnormal_codes", tensor.subnormal_codes},
            {"top_octave_codes", tensor.top_octave_codes},
            {"negative_underflows", tensor.negative_underflows},
            {"nan_inputs", tensor.nan_inputs},
            {"largest_error_steps", json_number(tensor.largest_error_steps)},
            {"explained_by", tensor.explained_by},
            {"clauses", clauses}};
  if (tensor.inference) json["inference"] = inference_json(*tensor.inference);
  return json;
}

Json fp8_contract_json(const compare::Fp8ContractReport& contract) {
  Json tensors = Json::array();
  for (const auto& tensor : contract.tensors) tensors.push_back(fp8_tensor_json(tensor));
  return {{"applies", contract.applies}, {"declared", contract.declared}, {"tensors", tensors}};
}

Json place_json(const std::optional<compare::Coordinates>& place) {
  if (!place) return nullptr;
  Json json = Json::object();
  for (const auto& [name, value] : *place) json[name] = value;
  return json;
}

Json write_set_json(const compare::WriteSetReport& set) {
  return {{"path", set.path},
          {"output", set.output},
          {"holds", set.holds()},
          {"expected_bytes", set.expected_bytes},
          {"written_bytes", set.written_bytes},
          {"missed_bytes", set.missed_bytes},
          {"extra_bytes", set.extra_bytes},
          {"fill_dependent_bytes", set.fill_dependent_bytes},
          {"first_missed", place_json(set.first_missed)},
          {"first_extra", place_json(set.first_extra)},
          {"first_fill_dependent", place_json(set.first_fill_dependent)}};
}

// What own device paths touched: an object without keys if none ran.
Json own_paths_json(const CaseReport& report) {
  Json json = Json::object();
  for (const auto& set : report.write_set) json["caches"].push_back(write_set_json(set));
  for (const auto& replay : report.graph_safe) {
    json["graph_safe"].push_back({{"path", replay.path},
                                  {"scope", name_of(replay.scope)},
                                  {"replays", replay.live_counts.size()},
                                  {"live_counts", replay.live_counts},
                                  {"equivalent", replay.equivalent},
                                  {"first_difference", replay.first_difference}});
  }
  for (const auto& poison : report.poison) {
    json["poison"].push_back({{"path", poison.path},
                              {"fill", poison.fill},
                              {"unchanged", poison.unchanged},
                              {"first_difference", poison.first_difference}});
  }
  for (const auto& repeat : report.repeats) {
    json["repeats"].push_back({{"path", repeat.path},
                               {"runs", repeat.runs},
                               {"equal", repeat.equal},
                               {"first_difference", repeat.first_difference}});
  }
  for (const auto& invariance : report.invariance) {
    json["invariance"].push_back({{"path", invariance.path},
                                  {"rows", invariance.rows},
                                  {"invariant", invariance.invariant},
                                  {"first_difference", invariance.first_difference}});
  }
  for (const auto& fault : report.path_faults) {
    json["faults"].push_back({{"path", fault.path}, {"text", fault.text}});
  }
  return json;
}

Json case_json(const CaseResult& result) {
  const CaseReport& report = result.report;
  Json comparisons = Json::array();
  for (const Comparison& comparison : report.comparisons) {
    comparisons.push_back(comparison_json(comparison));
  }
  Json json = {{"capture", report.capture},
               {"call", result.call},
               {"outcome", name_of(report.outcome)},
               {"reason", report.reason},
               {"rerun", result.rerun},
               {"seconds", report.seconds},
               {"warnings", report.warnings},
               {"not_exercised", report.not_exercised},
               {"comparisons", comparisons},
               {"claims", claims_json(report.claims)},
               {"slot_map", slot_map_json(report.slot_map)},
               {"fp8_contract", fp8_contract_json(report.fp8_contract)},
               {"write_set", own_paths_json(report)}};
  if (!result.stage.empty()) {
    json["stage"] = {{"name", result.stage}, {"inputs", result.stage_inputs}};
  }
  return json;
}

}  // namespace

std::string print_json(std::string_view command, std::string_view device,
                       std::span<const CaseResult> cases) {
  Json document = json_document(command, device);
  document["cases"] = Json::array();
  for (const CaseResult& result : cases) document["cases"].push_back(case_json(result));
  return json_text(document);
}

}  // namespace zerodiff::tools
