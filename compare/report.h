// The report as data: what comparisons found. Printers (tools/) turn it into text or JSON; nothing
// in here prints, and nothing decides an exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/diagnosis.h"
#include "compare/fp8_inference_report.h"
#include "compare/legal_report.h"
#include "compare/stage_report.h"

namespace zerodiff::compare {

// How one output of one path relates to what it is held against (docs/verdicts.md, section 1).
enum class Verdict { identical, legal, bounded, fault, different, absent };

// What became of one capture (docs/verdicts.md, section 5).
enum class Outcome {
  passed,
  failed,
  mistrusted,
  skipped,
  invalid_input,
  crashed,
  timed_out,
  missing
};

enum class Scope { end_to_end, stage };

const char* name_of(Verdict verdict);
const char* name_of(Outcome outcome);  // "PASSED", "INVALID_INPUT", ...
const char* name_of(Scope scope);

// Whether an output with this verdict is right: identical, legal or bounded.
bool is_right(Verdict verdict);

struct ElementDifference {
  std::int64_t flat_index = 0;
  Coordinates where;
  std::uint64_t expected_bits = 0;
  std::uint64_t got_bits = 0;
  double expected = 0;  // decoded value, unit scale for fp8
  double got = 0;
  double abs_error = 0;   // +infinity where exactly one side is NaN, or an infinity is involved
  std::uint64_t ulp = 0;  // steps of the element's own type; UINT64_MAX where one side is NaN
};

// Counts over one set of elements.
struct Tally {
  std::int64_t elements = 0;
  std::int64_t mismatches = 0;
  std::int64_t nan_mismatches = 0;  // of these, exactly one side NaN
  double max_abs_error = 0;
  std::uint64_t max_ulp = 0;
  std::vector<ElementDifference> first;    // the first few in flat order
  std::optional<ElementDifference> worst;  // largest abs error, then ulp, then lowest index
};

// A part of an output that is counted apart: "scheduled" and "padding" rows of q and index_q,
// "written" and "untouched" elements of a cache, "all" elsewhere.
struct Region {
  std::string name;
  bool counts = true;  // padding rows are shown but decide nothing
  Tally tally;
};

// A block of a selection, as the scores of the expected side see it.
struct SelectedBlock {
  std::int64_t block = -1;      // of the request's context
  std::optional<double> score;  // none: the row does not see the block, or there are no scores
  std::string forced;  // "init" or "local" where numerics.md section 11 replaces the score, or ""
};

// A row of topk_index that differs.
struct TopkRowDifference {
  std::int64_t token = 0;
  std::int64_t request = -1;
  std::int64_t position = -1;
  std::int64_t kv_head = 0;
  std::vector<SelectedBlock> entered;  // in the judged row only, in its order
  std::vector<SelectedBlock> left;     // in the expected row only, in its order
  // What decided the expected row: the last of its blocks by the order of section 11, and the first
  // of those it leaves out. None without scores, or if it leaves nothing out.
  std::optional<SelectedBlock> worst_selected;
  std::optional<SelectedBlock> best_left_out;
  std::optional<double> gap;  // between their scores in force (1e30 and 1e29 for forced blocks)
};

struct TopkDifference {
  std::int64_t rows = 0;            // that differ
  std::int64_t reordered_rows = 0;  // of these, the same blocks in another order
  std::vector<TopkRowDifference> first;
};

struct Comparison {
  std::string output;   // "k_cache"
  std::string path;     // the path under judgement, "atom_fused"
  std::string against;  // "reference", or another path
  Scope scope = Scope::end_to_end;
  Verdict verdict = Verdict::absent;
  bool gates = false;  // whether a verdict that is not right fails the case
  Tally total;         // over the regions that count
  std::vector<Region> regions;
  std::optional<TopkDifference> topk;  // of topk_index, if it differs
  std::string note;                    // one line, for example why it is absent
  // Of an output of the insertion stages that differs, where the search over legal choices applies.
  std::optional<LegalReport> legal;
  std::optional<StageReport> judged_stage;  // scope stage: what the verdict rests on
  // Of such an output that is a fault: one, or one for K and one for V of a joined pool.
  std::vector<Diagnosis> diagnoses;
};

// Where a slot lands.
struct SlotPlace {
  std::int64_t slot = -1;  // as mapped or rebased, whichever the mapping holds
  std::int64_t page = -1;  // physical K page; -1: nothing is stored
  std::int64_t offset = -1;
};

struct SlotDifference {
  std::int64_t row = 0;
  std::int64_t request = -1;
  std::int64_t position = -1;
  SlotPlace eager;
  SlotPlace graph_safe;
};

enum class SlotMapVerdict { equivalent, not_equivalent, not_applicable };
const char* name_of(SlotMapVerdict verdict);

// Slot mapping of a call (numerics.md section 7).
struct SlotMapReport {
  SlotMapVerdict verdict = SlotMapVerdict::not_applicable;
  std::string reason;  // why not_applicable, or the first fault in words
  std::int64_t scheduled_rows = 0;
  std::int64_t stored_rows = 0;  // scheduled rows with a slot >= 0
  std::int64_t padding_rows = 0;
  std::int64_t capacity = 0;
  bool graph_buffer_present = false;
  bool graph_buffer_used = false;  // it decides where K and V go in this call
  std::int64_t graph_buffer_length = 0;
  // Of the graph-safe buffer against the eager rebased mapping:
  std::int64_t differing_rows = 0;        // scheduled rows whose entries differ
  std::int64_t stale_entries = 0;         // non-negative entries at or past num_tokens
  std::int64_t negative_became_real = 0;  // eager stores nothing, the buffer does
  std::int64_t duplicates = 0;            // of non-negative buffer entries
  std::int64_t out_of_range = 0;          // not the K half of a block of the pool
  std::optional<SlotDifference> first_difference;
  // Of slot_mapping against the block table: scheduled rows whose slot is another one.
  bool block_table_checked = false;
  std::int64_t block_table_disagreements = 0;
  std::int64_t index_block_table_disagreements = 0;  // the same of index_slot_mapping
};

// One clause of the fp8 scale contract for one tensor of one path (numerics.md section 6).
struct Fp8Clause {
  std::string name;      // "code", "nan", "error_bound", "format", "overflow", ...
  std::string declared;  // what the call declares, for example "multiply_reciprocal"
  bool applies = true;
  std::int64_t checked = 0;     // elements
  std::int64_t violations = 0;  // elements that break the clause
  std::string detail;           // one line, empty if all is well
};

struct Fp8TensorReport {
  std::string path;
  std::string tensor;          // "k", "v", "index_k", "index_q"
  std::string format;          // "float8_e4m3fn"
  std::int64_t written = 0;    // elements that a slot maps to
  std::int64_t saturated = 0;  // input beyond the largest finite value, stored as +-largest
  std::int64_t nan_codes = 0;
  std::int64_t zero_codes = 0;
  std::int64_t subnormal_codes = 0;
  double largest_error_steps = 0;  // |decode(code)*scale - x| / (step*scale), saturated ones apart
  std::int64_t top_octave_codes = 0;     // finite codes of the format's largest exponent
  std::int64_t negative_underflows = 0;  // inputs below zero, or -0, that the contract makes zero
  std::int64_t nan_inputs = 0;
  std::vector<Fp8Clause> clauses;
  bool conforms = true;
  bool gates = false;  // whether a tensor that does not conform fails the case
  // The allowed choices under which its output is legal although it breaks the declared contract;
  // empty otherwise. Such a tensor does not gate.
  std::string explained_by;
  // What the codes themselves tell of the contract; of captured paths.
  std::optional<Fp8Inference> inference;
};

struct Fp8ContractReport {
  bool applies = false;  // false with `auto` caches
  std::string declared;  // one line: format, scale_op, quantize_from, overflow, granularity
  std::vector<Fp8TensorReport> tensors;  // the reference's own first, then each judged path's
};

// The write-set proof of one cache of one own path (docs/verdicts.md, section 2), in bytes.
struct WriteSetReport {
  std::string path;
  std::string output;               // "k_cache"
  std::int64_t expected_bytes = 0;  // that the slot mapping implies
  std::int64_t written_bytes = 0;
  std::int64_t missed_bytes = 0;          // implied, not written
  std::int64_t extra_bytes = 0;           // written, not implied
  std::int64_t fill_dependent_bytes = 0;  // written, with a value that depends on what was there
  std::optional<Coordinates> first_missed;
  std::optional<Coordinates> first_extra;
  std::optional<Coordinates> first_fill_dependent;

  bool holds() const { return missed_bytes == 0 && extra_bytes == 0 && fill_dependent_bytes == 0; }
};

enum class GraphScope : std::uint8_t {
  insertion,  // one batch with fewer and fewer live rows
  layer,      // insertion and the stages after it, every replay another batch
};

const char* name_of(GraphScope scope);  // "insertion", "layer"

// Eager batches against the same batches run graph-safe: one set of buffers of fixed capacity,
// refilled for one replay after another.
struct GraphSafeReport {
  std::string path;
  GraphScope scope = GraphScope::insertion;
  std::vector<std::int64_t> live_counts;  // one a replay, in the order in which they ran
  bool equivalent = true;
  std::string first_difference;  // one line, empty if equivalent
};

// Runs of an own path on the same buffers and inputs, each against the first.
struct RepeatReport {
  std::string path;
  std::int64_t runs = 0;  // the first one counted
  bool equal = true;
  std::string first_difference;  // one line, empty if equal
};

// Single rows of an own path, alone and at other row indices, against the same rows in the batch.
struct InvarianceReport {
  std::string path;
  std::vector<std::int64_t> rows;  // that were looked at
  bool invariant = true;
  std::string first_difference;  // one line, empty if invariant
};

// Selection and attention of an own path when everything that no live token reads is poisoned.
struct PoisonReport {
  std::string path;
  std::string fill;  // "nan", "finite"
  bool unchanged = true;
  std::string first_difference;  // one line, empty if unchanged
};

// What an own path did that no path may do: a fault that the device's checks found.
struct PathFault {
  std::string path;
  std::string text;  // one line
};

// Everything `verify` found out about one capture.
struct CaseReport {
  std::string capture;
  Outcome outcome = Outcome::passed;
  std::string reason;  // one line for every outcome but PASSED
  std::vector<std::string> warnings;
  std::vector<std::string> not_exercised;
  std::vector<Comparison> comparisons;
  std::vector<ClaimReport> claims;  // of the captured paths that make some
  SlotMapReport slot_map;
  Fp8ContractReport fp8_contract;
  std::vector<WriteSetReport> write_set;     // of the own device paths
  std::vector<GraphSafeReport> graph_safe;   // likewise
  std::vector<PoisonReport> poison;          // likewise
  std::vector<RepeatReport> repeats;         // likewise, on request
  std::vector<InvarianceReport> invariance;  // likewise, on request
  std::vector<PathFault> path_faults;        // likewise
  double seconds = 0;
};

}  // namespace zerodiff::compare
