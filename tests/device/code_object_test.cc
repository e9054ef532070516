// The code objects that the build makes: the kernels' names, argument blocks and needs, against the
// host's registry, against docs/kernel-arguments.md, and against what recordings launch.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "device/host/kernel_registry.h"
#include "device/paths/run_path.h"
#include "device/recording_index.h"
#include "fixtures/capture.h"
#include "tests/device/code_object_metadata.h"

namespace zerodiff::device {
namespace {

constexpr std::int64_t kLdsOfAWorkGroup = 64 * 1024;

struct Slot {
  std::int64_t offset = 0;
  std::int64_t size = 0;
  bool pointer = false;
  friend bool operator==(const Slot&, const Slot&) = default;
};

void PrintTo(const Slot& slot, std::ostream* stream) {
  *stream << "[" << slot.offset << " +" << slot.size << (slot.pointer ? " pointer]" : "]");
}

// Sizes as docs/recording.md lays them out: in order, each aligned to its own size.
std::vector<Slot> laid_out(const std::vector<Slot>& arguments) {
  std::vector<Slot> slots = arguments;
  std::int64_t end = 0;
  for (Slot& slot : slots) {
    slot.offset = (end + slot.size - 1) / slot.size * slot.size;
    end = slot.offset + slot.size;
  }
  return slots;
}

std::vector<Slot> slots_of(const KernelMetadata& kernel) {
  std::vector<Slot> slots;
  for (const KernelArgument& argument : kernel.arguments) {
    slots.push_back({argument.offset, argument.size, argument.kind == "global_buffer"});
  }
  return slots;
}

std::vector<Slot> slots_of(const HostKernel& kernel) {
  std::vector<Slot> slots;
  for (const Parameter& parameter : kernel.parameters) {
    const bool pointer = parameter.alternative == 0;
    slots.push_back({0, pointer || parameter.type == "int64_t" ? 8 : 4, pointer});
  }
  return laid_out(slots);
}

// The tables of docs/kernel-arguments.md, for each kernel that they name.
std::map<std::string, std::vector<Slot>> documented() {
  std::map<std::string, std::vector<Slot>> kernels;
  std::ifstream document("docs/kernel-arguments.md");
  const std::regex row(R"(\| (\d+) \| (\d+) \| `([^`]*)` \| `\w+` \|)");
  const std::regex name("`(\\w+)`");
  std::vector<std::string> family;
  for (std::string line; std::getline(document, line);) {
    std::smatch match;
    if (line.starts_with("## ")) {
      family.clear();
    } else if (line.starts_with("`")) {
      for (std::sregex_iterator i(line.begin(), line.end(), name), end; i != end; ++i) {
        family.push_back((*i)[1]);
        kernels[family.back()];
      }
    } else if (std::regex_match(line, match, row)) {
      for (const std::string& kernel : family) {
        kernels[kernel].push_back(
            {std::stoll(match[1]), std::stoll(match[2]), match[3].str().ends_with('*')});
      }
    }
  }
  return kernels;
}

class CodeObject : public testing::TestWithParam<std::string> {
 protected:
  CodeObject()
      : metadata_(read_code_object(ZERODIFF_BINARY_DIR "/zerodiff_" + GetParam() + ".co")) {}
  CodeObjectMetadata metadata_;
};

TEST_P(CodeObject, HoldsTheKernelsOfTheRegistry) {
  std::set<std::string> expected;
  for (const HostKernel& kernel : host_kernels().kernels()) expected.insert(kernel.name);
  std::set<std::string> found;
  for (const auto& [name, kernel] : metadata_.kernels) found.insert(name);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(metadata_.abi_version, 2) << "code object version 4";
}

TEST_P(CodeObject, TakesTheArgumentsOfTheRegistryAndNoHiddenOnes) {
  for (const HostKernel& kernel : host_kernels().kernels()) {
    const KernelMetadata& built = metadata_.kernels.at(kernel.name);
    EXPECT_EQ(slots_of(built), slots_of(kernel)) << kernel.name;
    EXPECT_EQ(built.argument_bytes, built.arguments.back().offset + built.arguments.back().size);
    EXPECT_EQ(built.max_threads, kernel.max_threads) << kernel.name;
  }
}

TEST_P(CodeObject, IsWhatTheDocumentSays) {
  const auto documented_kernels = documented();
  EXPECT_EQ(documented_kernels.size(), metadata_.kernels.size());
  for (const auto& [name, kernel] : metadata_.kernels) {
    ASSERT_TRUE(documented_kernels.contains(name)) << name;
    EXPECT_EQ(documented_kernels.at(name), slots_of(kernel)) << name;
  }
}

TEST_P(CodeObject, NeedsNoScratchAndNoQueue) {
  for (const auto& [name, kernel] : metadata_.kernels) {
    EXPECT_EQ(kernel.scratch_bytes, 0) << name;
    EXPECT_FALSE(kernel.dynamic_stack) << name;
    EXPECT_FALSE(kernel.wants_queue()) << name;
    EXPECT_LE(kernel.lds_bytes, kLdsOfAWorkGroup) << name;
    EXPECT_EQ(kernel.wave_width, 64) << name;
  }
}

// Families that read sizes of the grid or of the block, which lie in the dispatch packet
// (docs/recording.md).
bool reads_sizes(const std::string& name) {
  if (name.starts_with("selftest_")) {
    return name != "selftest_lane_sum" && name != "selftest_stray_write";
  }
  const auto belongs_to = [&](const char* family) { return name.starts_with(family); };
  return std::ranges::any_of(std::array{"fused_attention", "fused_insert", "qk_norm_rope",
                                        "reshape_and_cache", "slot_mapping", "sparse_attention"},
                             belongs_to);
}

TEST_P(CodeObject, ReadsTheDispatchPacketWhereTheDocumentSaysSo) {
  for (const auto& [name, kernel] : metadata_.kernels) {
    EXPECT_EQ(kernel.wants_dispatch_packet(), reads_sizes(name)) << name;
  }
}

TEST_P(CodeObject, RoundsToNearestAndKeepsDenormals) {
  for (const auto& [name, kernel] : metadata_.kernels) {
    EXPECT_EQ(kernel.float_round_mode(), 0U) << name;
    EXPECT_EQ(kernel.float_denorm_mode(), 15U) << name;
  }
}

// What a launch of a recording's index asks of its kernel.
void expect_runnable(const nlohmann::json& launch, const CodeObjectMetadata& metadata) {
  const std::string name = launch.at("kernel");
  ASSERT_TRUE(metadata.kernels.contains(name)) << name;
  const KernelMetadata& kernel = metadata.kernels.at(name);
  std::vector<Slot> slots;
  for (const nlohmann::json& argument : launch.at("arguments")) {
    const std::string type = argument.at("type");
    const bool pointer = type == "buffer" || type == "null";
    slots.push_back({0, pointer || type == "int64" ? 8 : 4, pointer});
  }
  EXPECT_EQ(laid_out(slots), slots_of(kernel)) << name;
  std::int64_t threads = 1;
  for (const std::int64_t size : launch.at("block")) threads *= size;
  EXPECT_LE(threads, kernel.max_threads) << name;
  EXPECT_LE(kernel.lds_bytes + launch.at("lds_bytes").get<std::int64_t>(), kLdsOfAWorkGroup);
}

TEST_P(CodeObject, RunsWhatRecordingsLaunch) {
  std::set<std::string> launched;
  for (const char* capture :
       {"m3_small_decode_fp8", "m3_small_graph_fp8_scaled", "m3_small_prefill_bf16"}) {
    const CaptureReader reader("fixtures/captured/" + std::string(capture) + ".h5");
    PathOptions whole_layer;
    whole_layer.attention.emplace();
    for (const PathKind kind : {PathKind::unfused, PathKind::fused}) {
      const PathLaunches path = path_launches(kind, reader.call(), whole_layer);
      RecordingInfo info{.backend = "host", .wave_width = 64};
      info.before.resize(path.list.buffers().size());
      info.after.resize(path.list.buffers().size());
      const auto index = nlohmann::json::parse(recording_index_text(path.list, info));
      for (const nlohmann::json& launch : index.at("launches")) {
        launched.insert(launch.at("kernel"));
        expect_runnable(launch, metadata_);
      }
    }
  }
  for (const char* family :
       {"fused_insert", "qk_norm_rope", "slot_mapping", "reshape_and_cache", "index_cache_insert",
        "index_score", "index_topk", "fused_topk", "sparse_block_table", "sparse_attention",
        "attention_merge", "fused_attention"}) {
    const auto first = launched.lower_bound(family);
    EXPECT_TRUE(first != launched.end() && first->starts_with(family)) << family;
  }
}

std::vector<std::string> architectures() {
  std::istringstream names(ZERODIFF_CODE_OBJECT_ARCHITECTURES);
  return {std::istream_iterator<std::string>(names), {}};
}

INSTANTIATE_TEST_SUITE_P(Built, CodeObject, testing::ValuesIn(architectures()),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace zerodiff::device
