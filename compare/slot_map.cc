#include "compare/slot_map.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "reference/cache_layout.h"
#include "reference/slot_mapping.h"

namespace zerodiff::compare {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

SlotPlace place_of(std::int64_t slot) {
  const reference::PagePlace place = reference::page_of(slot);
  return {slot, place.page, place.offset};
}

std::string describe(const SlotPlace& place) {
  if (place.slot < 0) return "nothing (slot " + std::to_string(place.slot) + ")";
  return "slot " + std::to_string(place.slot) + " (page " + std::to_string(place.page) +
         ", offset " + std::to_string(place.offset) + ")";
}

std::string describe(const SlotDifference& difference) {
  return "row " + std::to_string(difference.row) + " (request " +
         std::to_string(difference.request) + ", position " + std::to_string(difference.position) +
         "): the buffer has " + describe(difference.graph_safe) + ", eager rebasing " +
         describe(difference.eager);
}

std::string why_not_applicable(const LayerCall& call) {
  if (!call.page16_slot_mapping.present()) return "the call has no page16_slot_mapping";
  if (call.config.kv_storage == KvStorage::separate) {
    return "page16_slot_mapping is ignored with kv_storage separate";
  }
  if (call.page16_slot_mapping.size() != call.capacity()) {
    return "page16_slot_mapping has " + std::to_string(call.page16_slot_mapping.size()) +
           " entries, the batch " + std::to_string(call.capacity()) +
           " rows: it is not used, the mapping is rebuilt";
  }
  return "";
}

// The buffer against the eager mapping of the scheduled rows.
class BufferCheck {
 public:
  BufferCheck(const LayerCall& call, SlotMapReport& report)
      : call_(call),
        report_(report),
        eager_(reference::eager_kv_slots(call)),
        buffer_(call.page16_slot_mapping.as<std::int64_t>()) {}

  void run() {
    check_scheduled();
    check_tail();
    check_entries();
    report_.verdict = SlotMapVerdict::equivalent;
    report_.reason = first_fault();
    if (!report_.reason.empty()) report_.verdict = SlotMapVerdict::not_equivalent;
  }

 private:
  void note_difference(std::size_t row, std::int64_t eager_slot) {
    if (report_.first_difference) return;
    SlotDifference difference;
    difference.row = static_cast<std::int64_t>(row);
    difference.position = call_.positions.as<std::int64_t>()[row];
    if (call_.query_start_loc.present() && difference.row < call_.config.num_tokens) {
      difference.request = reference::request_of_row(call_, difference.row);
    }
    difference.eager = place_of(eager_slot);
    difference.graph_safe = place_of(buffer_[row]);
    report_.first_difference = difference;
  }

  void check_scheduled() {
    for (std::size_t row = 0; row < eager_.size(); ++row) {
      if (eager_[row] < 0 && buffer_[row] < 0) continue;
      if (eager_[row] == buffer_[row]) continue;
      ++report_.differing_rows;
      if (eager_[row] < 0) ++report_.negative_became_real;
      note_difference(row, eager_[row]);
    }
  }

  void check_tail() {
    for (std::size_t row = eager_.size(); row < buffer_.size(); ++row) {
      if (buffer_[row] < 0) continue;
      ++report_.stale_entries;
      note_difference(row, -1);
    }
  }

  void check_entries() {
    const std::int64_t end = 2 * call_.num_slots();
    std::unordered_set<std::int64_t> seen;
    for (const std::int64_t slot : buffer_) {
      if (slot < 0) continue;
      if (slot >= end || slot % (2 * kBlockSize) >= kBlockSize) ++report_.out_of_range;
      if (!seen.insert(slot).second) ++report_.duplicates;
    }
  }

  // A buffer that is an invalid mapping by itself comes last: it is so because of the rows above,
  // or because the call's own mapping is.
  std::string first_fault() const {
    if (report_.differing_rows > 0) {
      return std::to_string(report_.differing_rows) + " scheduled rows differ; " +
             describe(*report_.first_difference);
    }
    if (report_.stale_entries > 0) {
      return std::to_string(report_.stale_entries) + " stale entries past num_tokens; row " +
             std::to_string(report_.first_difference->row) + " still has " +
             describe(report_.first_difference->graph_safe);
    }
    if (report_.out_of_range > 0) {
      return std::to_string(report_.out_of_range) + " entries are not in the K half of a block";
    }
    if (report_.duplicates > 0) {
      return std::to_string(report_.duplicates) + " entries repeat a slot";
    }
    return "";
  }

  const LayerCall& call_;
  SlotMapReport& report_;
  std::vector<std::int64_t> eager_;
  std::span<const std::int64_t> buffer_;
};

// Rows that store at another slot than the block table gives them.
std::int64_t disagreements(const LayerCall& call, const Tensor& mapping) {
  const auto slots = mapping.as<std::int64_t>();
  const auto positions = call.positions.as<std::int64_t>();
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < call.config.num_tokens; ++row) {
    if (slots[at(row)] < 0 || positions[at(row)] < 0) continue;
    if (slots[at(row)] != reference::slot_from_block_table(call, row)) ++count;
  }
  return count;
}

void check_block_table(const LayerCall& call, SlotMapReport& report) {
  if (!call.has_attention_metadata()) return;
  report.block_table_checked = true;
  report.block_table_disagreements = disagreements(call, call.slot_mapping);
  if (call.config.skip_index_branch) return;
  report.index_block_table_disagreements = disagreements(call, call.index_slot_mapping);
}

}  // namespace

SlotMapReport slot_map_report(const LayerCall& call) {
  SlotMapReport report;
  report.capacity = call.capacity();
  report.scheduled_rows = call.config.num_tokens;
  report.padding_rows = report.capacity - report.scheduled_rows;
  report.graph_buffer_present = call.page16_slot_mapping.present();
  if (report.graph_buffer_present) report.graph_buffer_length = call.page16_slot_mapping.size();
  const auto eager = reference::eager_kv_slots(call);
  report.stored_rows =
      std::count_if(eager.begin(), eager.end(), [](std::int64_t slot) { return slot >= 0; });
  check_block_table(call, report);

  report.reason = why_not_applicable(call);
  if (!report.reason.empty()) return report;
  report.graph_buffer_used = call.config.batch_mode == BatchMode::graph;
  BufferCheck(call, report).run();
  return report;
}

}  // namespace zerodiff::compare
