#include "tools/inspect_capture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "compare/fp8_contract.h"
#include "compare/not_exercised.h"
#include "fixtures/capture_config.h"
#include "fixtures/error.h"
#include "reference/layer.h"
#include "tools/describe_call.h"
#include "tools/own_path.h"
#include "tools/terminal.h"

namespace zerodiff::tools {
namespace {

std::vector<ConfigEntry> config_entries(const CaptureReader& reader) {
  const Attributes& in_file = reader.config_attributes();
  std::vector<ConfigEntry> entries;
  for (auto& [name, value] : attributes_of(reader.call().config)) {
    const bool given = in_file.contains(name);
    entries.push_back({name, value, given ? ConfigOrigin::file : ConfigOrigin::default_value});
  }
  for (const std::string& name : reader.unknown_config()) {
    const auto found = in_file.find(name);
    entries.push_back({name, found == in_file.end() ? AttributeValue("(not shown)") : found->second,
                       ConfigOrigin::unknown});
  }
  return entries;
}

// One after the other, so that each digest is checked.
void read_paths(CaptureReader& reader) {
  Outputs outputs;
  for (const std::string& path : reader.path_names()) {
    outputs = reader.read_path(path, std::move(outputs));
  }
}

std::vector<PathSummary> path_summaries(const CaptureReader& reader) {
  std::vector<PathSummary> paths;
  for (const std::string& name : reader.path_names()) {
    PathSummary path{name, {}, reader.claims(name)};
    const std::string prefix = "/outputs/" + name + "/";
    for (const DatasetInfo& dataset : reader.datasets()) {
      if (dataset.name.starts_with(prefix))
        path.outputs.push_back(dataset.name.substr(prefix.size()));
    }
    std::ranges::stable_sort(path.outputs, {}, [](const std::string& output) {
      return std::ranges::find(kOutputFields, output, &OutputField::name) - kOutputFields.begin();
    });
    paths.push_back(std::move(path));
  }
  return paths;
}

std::int64_t count_if_row(const Tensor& tensor, std::int64_t first, std::int64_t last,
                          bool (*holds)(std::int64_t)) {
  const auto rows = tensor.as<std::int64_t>().subspan(static_cast<std::size_t>(first),
                                                      static_cast<std::size_t>(last - first));
  return std::ranges::count_if(rows, holds);
}

std::string describe_rows(const LayerCall& call) {
  const std::int64_t scheduled = call.config.num_tokens;
  const auto negative = [](std::int64_t value) { return value < 0; };
  const std::int64_t empty = count_if_row(call.positions, 0, scheduled, negative);
  const std::int64_t unstored = count_if_row(call.slot_mapping, 0, scheduled, negative);
  return fmt::format("{} scheduled ({} stored, {} empty), {} padding", counted(scheduled, "row"),
                     grouped(scheduled - unstored), grouped(empty),
                     grouped(call.capacity() - scheduled));
}

std::string describe_positions(const LayerCall& call) {
  const auto positions =
      call.positions.as<std::int64_t>().first(static_cast<std::size_t>(call.config.num_tokens));
  if (positions.empty()) return "no positions";
  const auto [least, most] = std::ranges::minmax(positions);
  return fmt::format("positions {} to {}", least, most);
}

std::string describe_requests(const LayerCall& call) {
  if (!call.has_attention_metadata()) {
    return "no block_table, seq_lens and query_start_loc: only insertion can be replayed";
  }
  const auto lengths = call.seq_lens.as<std::int32_t>();
  if (lengths.empty()) return "no requests";
  const auto [least, most] = std::ranges::minmax(lengths);
  const std::int64_t blocks = (std::int64_t{most} + kBlockSize - 1) / kBlockSize;
  return fmt::format("{} of {} to {} tokens: at most {} visible, topk {}",
                     counted(call.seq_lens.size(), "request"), grouped(least), grouped(most),
                     counted(blocks, "block"), call.config.topk);
}

std::string describe_pool(const LayerCall& call) {
  return fmt::format("pool of {}: {}, {} storage, x = {}", counted(call.num_blocks(), "block"),
                     counted(call.num_slots(), "slot"), name_of(call.config.kv_storage),
                     call.cache_vector_width());
}

std::string describe_scale(std::string_view name, const Tensor& scale) {
  const auto values = scale.as<float>();
  if (values.empty()) return fmt::format("{} empty", name);
  const auto [least, most] = std::ranges::minmax(values);
  if (least == most) return fmt::format("{} {}", name, least);
  return fmt::format("{} {} to {} ({})", name, least, most, to_string(scale.shape()));
}

std::vector<std::string> describe_exercise(const LayerCall& call) {
  std::vector<std::string> lines{describe_rows(call), describe_positions(call),
                                 describe_requests(call), describe_pool(call)};
  if (call.config.kv_cache_dtype && call.k_scale.present() && call.v_scale.present()) {
    lines.push_back(describe_scale("k_scale", call.k_scale) + ", " +
                    describe_scale("v_scale", call.v_scale));
  }
  if (call.page16_slot_mapping.present()) {
    lines.push_back(fmt::format("graph-safe slot buffer of {} entries",
                                grouped(call.page16_slot_mapping.size())));
  }
  return lines;
}

// Which codes a call makes shows only when it is run; a call that cannot be run (a slot buffer that
// sends rows where they must not go) still has everything else to show.
compare::Fp8ContractReport reference_codes(const LayerCall& call) {
  try {
    const Outputs outputs = reference::run_insertion(call);
    return compare::fp8_contract_report(call, {{std::string(kReferencePath), &outputs}});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    return {};
  }
}

}  // namespace

Inspection inspect_capture(const std::filesystem::path& file, const ReadOptions& options) {
  CaptureReader reader(file, options);
  read_paths(reader);
  const LayerCall& call = reader.call();
  const compare::Fp8ContractReport contract = reference_codes(call);
  return {.file = file.string(),
          .file_bytes = std::filesystem::file_size(file),
          .call = describe_call(call),
          .scale_contract = contract.declared,
          .root = reader.root_attributes(),
          .config = config_entries(reader),
          .config_digest = reader.config_digest(),
          .datasets = reader.datasets(),
          .paths = path_summaries(reader),
          .exercised = describe_exercise(call),
          .not_exercised = compare::not_exercised(call, contract),
          .warnings = reader.warnings()};
}

}  // namespace zerodiff::tools
