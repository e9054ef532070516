#include "tools/print_json_stage.h"

namespace zerodiff::tools {
namespace {

Json where_json(const compare::Coordinates& where) {
  Json json = Json::object();
  for (const auto& [name, value] : where) json[name] = value;
  return json;
}

Json element_json(const compare::BoundedElement& element) {
  return {{"where", where_json(element.where)},
          {"got", json_number(element.got)},
          {"exact", json_number(element.exact)},
          {"bound", json_number(element.bound)},
          {"headroom", json_number(element.headroom)}};
}

Json headroom_json(const compare::Headroom& headroom) {
  Json histogram = Json::array();
  for (const compare::HeadroomBin& bin : headroom.histogram) {
    histogram.push_back({{"upper", json_number(bin.upper)}, {"elements", bin.elements}});
  }
  Json outside = Json::array();
  for (const compare::BoundedElement& element : headroom.first_outside) {
    outside.push_back(element_json(element));
  }
  return {{"elements", headroom.elements},
          {"outside", headroom.outside},
          {"unbounded", headroom.unbounded},
          {"max", json_number(headroom.max)},
          {"median", json_number(headroom.median)},
          {"p90", json_number(headroom.p90)},
          {"p99", json_number(headroom.p99)},
          {"histogram", histogram},
          {"worst", headroom.worst ? element_json(*headroom.worst) : Json()},
          {"first_outside", outside}};
}

Json blocks_json(const std::vector<compare::RankedBlock>& blocks) {
  Json json = Json::array();
  for (const compare::RankedBlock& block : blocks) {
    json.push_back({{"block", block.id},
                    {"low", json_number(block.score.low)},
                    {"exact", json_number(block.score.exact)},
                    {"high", json_number(block.score.high)}});
  }
  return json;
}

Json selection_json(const compare::SelectionCheck& check) {
  Json first = Json::array();
  for (const compare::SelectionDifference& row : check.first) {
    first.push_back({{"verdict", name_of(row.verdict)},
                     {"where", where_json(row.where)},
                     {"entered", blocks_json(row.entered)},
                     {"left", blocks_json(row.left)},
                     {"gap", json_number(row.gap)},
                     {"problem", row.problem}});
  }
  return {{"rows", check.rows}, {"identical", check.identical}, {"reordered", check.reordered},
          {"tied", check.tied}, {"within", check.within},       {"faults", check.faults},
          {"first", first}};
}

Json table_json(const compare::TableCheck& check) {
  return {{"rows", check.rows},
          {"identical", check.identical},
          {"reordered", check.reordered},
          {"not_judged", check.not_judged},
          {"faults", check.faults}};
}

}  // namespace

Json stage_json(const compare::StageReport& report) {
  Json json{{"stage", report.stage},       {"judged", report.judged},
            {"faults", report.faults},     {"choices", report.choices},
            {"borrowed", report.borrowed}, {"accumulator", report.accumulator},
            {"p_dtype", report.p_dtype}};
  if (report.headroom) json["headroom"] = headroom_json(*report.headroom);
  if (report.resolution) {
    json["resolution"] = {{"tokens", report.resolution->tokens},
                          {"resolved", report.resolution->resolved},
                          {"share", json_number(report.resolution->share())},
                          {"rows", report.resolution->rows},
                          {"rows_in_call", report.resolution->rows_in_call}};
  }
  if (report.selection) json["selection"] = selection_json(*report.selection);
  if (report.table) json["table"] = table_json(*report.table);
  return json;
}

}  // namespace zerodiff::tools
