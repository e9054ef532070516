// The kernel vocabulary on the host: what it computes, and what must not compile.
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/device/platform_vocabulary.hip.h"
#include "tests/device/simt_harness.h"

namespace zerodiff::device {
namespace {

static_assert(std::is_convertible_v<View<float>, View<const float>>);
static_assert(!std::is_convertible_v<View<const float>, View<float>>);
static_assert(!std::is_convertible_v<View<float>, View<std::int32_t>>);
static_assert(!std::is_convertible_v<View<float>, bool>, "only `if (view)` and the like");
static_assert(std::is_constructible_v<bool, View<float>>);
static_assert(!std::is_convertible_v<double, AccessIndex>, "an index is an integer");
// What `auto x = view[i]` would keep is of no use.
static_assert(!std::is_copy_constructible_v<ElementReference<float>>);
static_assert(!std::is_convertible_v<ElementReference<float>&, float>);
static_assert(std::is_convertible_v<ElementReference<float>, float>);
static_assert(!std::is_assignable_v<ElementReference<float>&, float>);
static_assert(sizeof(Vec16<std::uint8_t>) == 16 && alignof(Vec16<std::uint8_t>) == 16);
static_assert(sizeof(Vec16<std::int64_t>) == 16);
static_assert(whole_vocabulary_max_threads == 64);

constexpr std::int32_t kRows = 150;  // the last of three blocks is not full
constexpr float kScale = 0.5f;

Tensor row_codes() {
  Tensor codes = Tensor::allocate(ElementType::bfloat16, {kRows, 8});
  for (std::size_t i = 0; i < codes.as<std::uint16_t>().size(); ++i) {
    // Small integers, whose sums are exact.
    const auto bits = bits_as<std::uint32_t>(static_cast<float>(i % 13));
    codes.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(bits >> 16);
  }
  return codes;
}

float row_sum(std::int64_t row) {
  float sum = 0;
  for (std::int64_t i = 8 * row; i < 8 * row + 8; ++i) sum += static_cast<float>(i % 13) * kScale;
  return row < kRows ? sum : 0;
}

float expected_number(std::int64_t row) {
  float total = 0;
  const std::int64_t block = row / 64 * 64;
  for (std::int64_t other = block; other < block + 64; ++other) total += row_sum(other);
  return std::rint(total / 2) + row_sum(row ^ 1) + row_sum(row / 32 * 32);
}

LaunchList vocabulary_list() {
  LaunchList list;
  const BufferId codes = list.add_input("codes", row_codes());
  Tensor table = Tensor::allocate(ElementType::int32, {kRows});
  for (std::int32_t i = 0; i < kRows; ++i) table.as<std::int32_t>()[std::size_t(i)] = -3 * i;
  const BufferId ids = list.add_input("table", std::move(table));
  const BufferId reversed = list.add_output("reversed", ElementType::bfloat16, 8 * kRows + 8);
  const BufferId numbers = list.add_output("numbers", ElementType::float32, kRows);
  const BufferId slots = list.add_output("slots", ElementType::int64, kRows);
  const BufferId bytes = list.add_output("bytes", ElementType::float8_e5m2, kRows);
  list.add_launch(
      {.kernel = "whole_vocabulary",
       .grid = {.x = 1, .y = 3},
       .block = {.x = 64},
       .lds_bytes = 64 * sizeof(float),
       .arguments = {BufferArgument{reversed}, BufferArgument{codes}, BufferArgument{numbers},
                     BufferArgument{slots}, BufferArgument{bytes}, BufferArgument{ids},
                     NullArgument{}, kRows, std::int64_t{1} << 40, std::uint32_t{7}, kScale}});
  return list;
}

template <class T>
std::vector<T> download(const ResidentLaunchList& resident, const LaunchList& list,
                        const char* name) {
  std::vector<T> values(static_cast<std::size_t>(list.buffer(list.find(name)).count));
  resident.download(list.find(name), std::as_writable_bytes(std::span(values)));
  return values;
}

TEST(PlatformVocabulary, ComputesTheSameAsPlainCode) {
  static const KernelRegistry registry({ZERODIFF_HOST_KERNEL(whole_vocabulary)});
  for (const int wave_width : {32, 64}) {
    HostBackend backend({.wave_width = wave_width}, registry);
    const LaunchList list = vocabulary_list();
    const auto resident = backend.allocate(list);
    resident->upload();
    const RunReport report = resident->run();
    ASSERT_TRUE(report.ok()) << all_faults(report);
    const auto reversed = download<std::uint16_t>(*resident, list, "reversed");
    const auto numbers = download<float>(*resident, list, "numbers");
    const auto slots = download<std::int64_t>(*resident, list, "slots");
    const auto bytes = download<std::uint8_t>(*resident, list, "bytes");
    const Tensor codes = row_codes();
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(reversed[8 + 8 * r + i], codes.as<std::uint16_t>()[8 * r + 7 - i]) << row;
      }
      EXPECT_EQ(numbers[r], expected_number(row)) << row;
      EXPECT_EQ(slots[r], -3 * row + (std::int64_t{1} << 40) + 7) << row;
      EXPECT_EQ(bytes[r], row % 256) << row;
    }
  }
}

}  // namespace
}  // namespace zerodiff::device
