#include "tools/print_bench.h"

#include <fmt/format.h>

#include <array>

#include "tools/json_values.h"
#include "tools/text_table.h"

namespace zerodiff::tools {
namespace {

constexpr std::array<std::string_view, 3> kCompared{"insertion", "sparse_attention", "whole path"};

double per_second(std::int64_t amount, const Spread& time) {
  return static_cast<double>(amount) / time.median;
}

double share_of_copy(const BenchReport& report, const StageTime& stage) {
  return per_second(stage.bytes, stage.time) / report.copy_bytes_per_second();
}

std::string microseconds(double seconds) {
  return fmt::format("{:.1f}", seconds * 1e6);
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string print_stages(const BenchReport& report, const Painter& paint) {
  constexpr Align kRight = Align::right;
  TextTable table({{"path"},
                   {"stage", Align::left, true},
                   {"launches", kRight},
                   {"median µs", kRight},
                   {"p95 µs", kRight},
                   {"MB", kRight},
                   {"GB/s", kRight},
                   {"of copy", kRight},
                   {"of FMA peak", kRight}},
                  2);
  for (const StageTime& stage : report.stages) {
    const bool counts_fmas = stage.fmas > 0 && report.peak_fmas_per_second > 0;
    table.add_row(
        {{stage.path},
         {stage.stage},
         {fmt::format("{}", stage.launches)},
         {microseconds(stage.time.median), Style::bold},
         {microseconds(stage.time.p95)},
         {fmt::format("{:.2f}", static_cast<double>(stage.bytes) * 1e-6)},
         {fmt::format("{:.1f}", per_second(stage.bytes, stage.time) * 1e-9)},
         {percent(share_of_copy(report, stage))},
         {counts_fmas ? percent(per_second(stage.fmas, stage.time) / report.peak_fmas_per_second)
                      : "-"}});
  }
  return table.render(paint);
}

Json spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"p95", spread.p95}};
}

Json stage_json(const BenchReport& report, const StageTime& stage) {
  Json json = {{"path", stage.path},
               {"stage", stage.stage},
               {"launches", stage.launches},
               {"seconds", spread_json(stage.time)},
               {"bytes", stage.bytes},
               {"bytes_per_second", per_second(stage.bytes, stage.time)},
               {"share_of_copy", share_of_copy(report, stage)},
               {"fmas", stage.fmas}};
  const bool known = report.peak_fmas_per_second > 0;
  json["share_of_peak_fmas"] =
      known ? Json(per_second(stage.fmas, stage.time) / report.peak_fmas_per_second) : Json();
  return json;
}

}  // namespace

double fused_gain(const BenchReport& report, std::string_view stage) {
  double unfused = 0;
  double fused = 0;
  for (const StageTime& time : report.stages) {
    if (time.stage != stage) continue;
    (time.path == "fused" ? fused : unfused) = time.time.median;
  }
  return fused > 0 ? unfused / fused : 0;
}

std::string print_bench(const BenchReport& report, std::string_view device, const Painter& paint) {
  std::string text = paint(Style::bold, report.call) + '\n';
  if (!report.difference.empty()) {
    return text + paint(Style::red, wrapped("  not measured: ", report.difference));
  }
  text += wrapped("  verified: ",
                  fmt::format("reference = unfused = fused on the whole call, {} comparisons of "
                              "outputs, max abs error 0",
                              report.compared_outputs));
  text += wrapped(
      "  measured: ",
      fmt::format("on {} by {}: {} runs after {} to warm up, {} sets of buffers of {} in turn",
                  device, report.clock, report.runs, report.warm_up, report.rotated,
                  readable_bytes(static_cast<std::uint64_t>(report.resident_bytes))));
  text += wrapped("  copy: ",
                  fmt::format("{} read and written in {} µs (p95 {}), {:.1f} GB/s",
                              readable_bytes(static_cast<std::uint64_t>(report.copy_bytes)),
                              microseconds(report.copy.median), microseconds(report.copy.p95),
                              report.copy_bytes_per_second() * 1e-9));
  text += '\n' + print_stages(report, paint);
  for (const std::string_view stage : kCompared) {
    const double gain = fused_gain(report, stage);
    if (gain > 0) text += fmt::format("  {}: unfused takes {:.2f} times as long\n", stage, gain);
  }
  return text;
}

std::string print_bench_json(const BenchReport& report, std::string_view device) {
  Json document = json_document("bench", device);
  document["call"] = report.call;
  document["difference"] = report.difference;
  document["compared_outputs"] = report.compared_outputs;
  document["stages"] = Json::array();
  if (report.difference.empty()) {
    document["clock"] = report.clock;
    document["warm_up"] = report.warm_up;
    document["runs"] = report.runs;
    document["rotated"] = report.rotated;
    document["resident_bytes"] = report.resident_bytes;
    document["copy"] = {{"bytes", report.copy_bytes},
                        {"seconds", spread_json(report.copy)},
                        {"bytes_per_second", report.copy_bytes_per_second()}};
    for (const StageTime& stage : report.stages) {
      document["stages"].push_back(stage_json(report, stage));
    }
    document["unfused_by_fused"] = Json::object();
    for (const std::string_view stage : kCompared) {
      const double gain = fused_gain(report, stage);
      if (gain > 0) document["unfused_by_fused"][std::string(stage)] = gain;
    }
  }
  return json_text(document);
}

}  // namespace zerodiff::tools
