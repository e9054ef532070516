// What lanes of a group exchange: shuffles, the canonical sum, LDS.
#include <random>

#include "device/selftest/plain_arithmetic.h"
#include "device/selftest/selftest_checks.h"

namespace zerodiff::device {
namespace {

constexpr std::uint32_t kSeed = 20240608;
constexpr std::int64_t kHeads = 1003;  // the last block has heads that are not there
constexpr std::int64_t kHeadElements = 128;
constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kBlock = 256;

// Magnitudes far apart: another order of the additions rounds otherwise.
std::vector<float> uneven_values(std::int64_t count) {
  std::mt19937 random(kSeed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    const float mantissa = 1 + static_cast<float>(random() % 8192) / 8192;
    const float scale = random() % 2 == 0 ? 1.0F : 4096.0F;
    value = (random() % 2 == 0 ? mantissa : -mantissa) * scale;
  }
  return values;
}

void compare_shuffled(SelftestTally& tally, const char* how, std::int64_t thread,
                      std::int64_t source, std::int64_t found, std::int64_t wanted) {
  tally.compare(found, wanted, [&] {
    return "thread " + std::to_string(thread) + ", which takes " + how + " thread " +
           std::to_string(source);
  });
}

}  // namespace

SelftestResult check_shuffles(Backend& backend, const SelftestOptions&) {
  constexpr std::int64_t kThreads = 2 * kBlock;
  constexpr std::int32_t kFirst = 1000;
  SelftestTally tally("shuffles", "32 lanes, every mask and lane, 32 and 64 bits");
  LaunchList list;
  const BufferId xored = list.add_output("xored", ElementType::int32, 32 * kThreads);
  const BufferId taken = list.add_output("taken", ElementType::int32, 32 * kThreads);
  const BufferId wide = list.add_output("wide", ElementType::int64, kThreads);
  const BufferId wave = list.add_output("wave", ElementType::int32, 1);
  list.add_launch(
      selftest_launch("selftest_shuffle", kThreads,
                      {BufferArgument{xored}, BufferArgument{taken}, BufferArgument{wide},
                       BufferArgument{wave}, static_cast<std::int32_t>(kThreads), kFirst}));
  const auto resident = backend.allocate(list);
  resident->upload();
  if (tally.ran(resident->run())) {
    const auto by_mask = downloaded<std::int32_t>(*resident, list, xored);
    const auto by_lane = downloaded<std::int32_t>(*resident, list, taken);
    const auto words = downloaded<std::int64_t>(*resident, list, wide);
    const auto width = downloaded<std::int32_t>(*resident, list, wave);
    for (std::int64_t i = 0; i < kThreads; ++i) {
      for (std::int64_t k = 0; k < 32; ++k) {
        const auto place = static_cast<std::size_t>(k * kThreads + i);
        const std::int64_t lane = i / 32 * 32 + k;
        compare_shuffled(tally, "by mask from", i, i ^ k, by_mask[place], (i ^ k) + kFirst);
        compare_shuffled(tally, "by lane from", i, lane, by_lane[place], lane + kFirst);
      }
      compare_shuffled(tally, "64 bits from", i, i ^ 16, words[static_cast<std::size_t>(i)],
                       ((i ^ 16) + kFirst) << 32 | 0x5A5A);
    }
    tally.compare(std::int64_t{width[0]}, std::int64_t{backend.wave_width()},
                  [] { return std::string("the wave width"); });
  }
  return std::move(tally).result();
}

SelftestResult check_lane_sums(Backend& backend, const SelftestOptions&) {
  SelftestTally tally("lane sums", "128 values in the contract's order");
  const std::vector<float> values = uneven_values(kHeads * kHeadElements);
  LaunchList list;
  const BufferId rows = add_values(list, "rows", ElementType::float32, values);
  const BufferId sums = list.add_output("sums", ElementType::float32, kHeads * kLanes);
  list.add_launch(selftest_launch(
      "selftest_lane_sum", kHeads * kLanes,
      {BufferArgument{rows}, BufferArgument{sums}, static_cast<std::int32_t>(kHeads)}));
  const auto resident = backend.allocate(list);
  resident->upload();
  if (tally.ran(resident->run())) {
    const auto found = downloaded<float>(*resident, list, sums);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::size_t head = i / kLanes;
      tally.compare(found[i], plain_sum128(values.data() + head * kHeadElements), [&] {
        return "head " + std::to_string(head) + ", lane " + std::to_string(i % kLanes);
      });
    }
  }
  return std::move(tally).result();
}

SelftestResult check_lds(Backend& backend, const SelftestOptions&) {
  constexpr std::int64_t kCount = 8 * kBlock;
  SelftestTally tally("LDS and barriers", "a block's values turned around, twice");
  const std::vector<float> values = uneven_values(kCount);
  LaunchList list;
  const BufferId in = add_values(list, "values", ElementType::float32, values);
  const BufferId once = list.add_output("reversed", ElementType::float32, kCount);
  const BufferId twice = list.add_output("reversed_again", ElementType::float32, kCount);
  Launch launch = selftest_launch(
      "selftest_lds", kCount, {BufferArgument{in}, BufferArgument{once}, BufferArgument{twice}});
  launch.lds_bytes = kBlock * static_cast<std::int64_t>(sizeof(float));
  list.add_launch(std::move(launch));
  const auto resident = backend.allocate(list);
  resident->upload();
  if (tally.ran(resident->run())) {
    const auto turned = downloaded<float>(*resident, list, once);
    const auto back = downloaded<float>(*resident, list, twice);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t block = i / kBlock * kBlock;
      const auto thread = [&] { return "thread " + std::to_string(i); };
      tally.compare(turned[i], values[block + kBlock - 1 - i % kBlock], thread);
      tally.compare(back[i], values[i], thread);
    }
  }
  return std::move(tally).result();
}

}  // namespace zerodiff::device
