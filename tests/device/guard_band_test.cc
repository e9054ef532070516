// A kernel that writes behind a buffer: on the host every access is checked, on a GPU the guard band
// tells. Runs on the device that ZERODIFF_TEST_DEVICE names.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "device/kernels/contract.h"
#include "tests/device/test_backends.h"

namespace zerodiff::device {
namespace {

constexpr std::int64_t kRows = 24;

// slot_mapping for 24 rows into a buffer of `count` slots.
LaunchList list_with_room_for(std::int64_t count) {
  LaunchList list;
  Tensor rows = Tensor::zeros(ElementType::int64, {kRows});
  Tensor live = Tensor::zeros(ElementType::int32, {1});
  live.as<std::int32_t>()[0] = kRows;
  const BufferId slots = list.add_input("slot_mapping", Tensor(rows));
  const BufferId positions = list.add_input("positions", std::move(rows));
  const BufferId num_tokens = list.add_input("num_tokens", std::move(live));
  const BufferId result = list.add_output("kv_slots", ElementType::int64, count);
  Launch launch;
  launch.kernel = "slot_mapping";
  launch.grid = {1};
  launch.block = {kThreadsPerBlock};
  launch.arguments = {BufferArgument{slots},  BufferArgument{positions}, BufferArgument{num_tokens},
                      BufferArgument{result}, std::int32_t{kRows},       std::uint32_t{0}};
  list.add_launch(std::move(launch));
  return list;
}

TEST(GuardBand, IsWholeAfterAKernelThatKeepsToItsBuffers) {
  for (const auto& backend : test_backends()) {
    const LaunchList list = list_with_room_for(kRows);
    const auto resident = backend->allocate(list);
    for (int run = 0; run < 2; ++run) {
      resident->upload();
      EXPECT_TRUE(resident->run().ok()) << backend->name();
    }
  }
}

TEST(GuardBand, TellsOfAWriteBehindTheBuffer) {
  for (const auto& backend : test_backends()) {
    const LaunchList list = list_with_room_for(kRows - 5);
    const auto resident = backend->allocate(list);
    resident->upload();
    const RunReport report = resident->run();
    ASSERT_FALSE(report.ok()) << backend->name();
    const KernelFault& fault = report.faults.front();
    const bool checked = backend->name() == "host";
    EXPECT_EQ(fault.kind, checked ? FaultKind::out_of_bounds : FaultKind::guard_band)
        << to_string(fault);
    EXPECT_EQ(fault.kernel, "slot_mapping");
    EXPECT_NE(fault.detail.find("kv_slots"), std::string::npos) << fault.detail;
  }
}

}  // namespace
}  // namespace zerodiff::device
