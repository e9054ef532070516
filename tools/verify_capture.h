// One capture, judged: the flow behind `zerodiff verify`, without any printing.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "fixtures/capture.h"
#include "tools/case_result.h"
#include "tools/contract_options.h"
#include "tools/judge_stage.h"
#include "tools/path_selection.h"

namespace zerodiff::tools {

struct VerifyOptions {
  PathSelection gate;
  ContractOptions contract;     // of captured paths
  int threads = 0;              // 0: one for each core
  std::string device = "auto";  // of the own paths unfused and fused, as open_device takes it
  int wave_width = 32;          // of the host device
  int graph_replays = 0;        // of the whole layer on each own path; 0: insertion alone
  int runs = 1;                 // of each own path, which must all give the same bytes
  std::optional<StageSelection> stage;  // this stage by itself, nothing else
  bool index_score = false;             // compare index_score, too
  ReadOptions read;
};

// The options that decide what a case finds, as a command line has them; threads do not.
std::string options_of(const VerifyOptions& options);

// Told what is being done, each time that changes ("judging atom_fused").
using OnStep = std::function<void(const std::string& step)>;

// Replays the call through the reference and holds each captured path, one in memory at a time,
// against it. Never throws for what a capture holds or lacks, or for a machine that fails: an
// invalid capture is INVALID_INPUT, a path that is asked for and not there MISSING, anything else
// that ends the work early CRASHED, each with its reason. Without a path that gates, the case
// PASSED if the reference ran and the slot maps are equivalent. With a
// stage only that stage is run, on the own paths (judge_stage.h). Throws Error (kUsage) for a device
// that this build does not know, and for a stage without a device.
CaseResult verify_capture(const std::filesystem::path& file, const VerifyOptions& options,
                          const OnStep& on_step);

}  // namespace zerodiff::tools
