// What a backend does with launch lists: replays with new content, and canaries.
#include <array>

#include "device/selftest/plain_arithmetic.h"
#include "device/selftest/selftest_checks.h"

namespace zerodiff::device {
namespace {

constexpr std::int64_t kCount = 4 * 256;
constexpr int kReplays = 5;

// Other numbers in each round; none is used twice.
std::vector<float> round_values(int round, float step) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(round + 1) + step * static_cast<float>(i);
  }
  return values;
}

void compare_round(SelftestTally& tally, int round, const std::vector<float>& found,
                   const std::vector<float>& a, const std::vector<float>& b,
                   const std::vector<float>& c) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    // Two launches: what the first leaves in `between` is an operand of the second.
    const float between = plain_fma(a[i], b[i], c[i]);
    tally.compare(found[i], plain_quotient(between, b[i]), [&] {
      return "replay " + std::to_string(round) + ", element " + std::to_string(i);
    });
  }
}

// The first damage that a run reports after a byte was written `where` bytes from the start of a
// buffer of `size` bytes.
RunReport run_stray_write(Backend& backend, std::int64_t size, std::int64_t where) {
  LaunchList list;
  list.add_output("before", ElementType::float8_e4m3fn, size);
  const BufferId buffer = list.add_output("buffer", ElementType::float8_e4m3fn, size);
  list.add_output("behind", ElementType::float8_e4m3fn, size);
  list.add_launch({.kernel = "selftest_stray_write",
                   .block = {.x = 64},
                   .arguments = {BufferArgument{buffer}, where}});
  const auto resident = backend.allocate(list);
  resident->upload();
  return resident->run();
}

}  // namespace

SelftestResult check_graph_replay(Backend& backend, const SelftestOptions&) {
  SelftestTally tally("graph replay", "two launches, replayed on changed buffers");
  LaunchList list;
  std::vector<float> a = round_values(0, 0.25F);
  std::vector<float> b = round_values(1, 0.125F);
  const std::vector<float> c = round_values(2, 0.5F);
  const BufferId a_id = add_values(list, "a", ElementType::float32, a);
  const BufferId b_id = add_values(list, "b", ElementType::float32, b);
  const BufferId c_id = add_values(list, "c", ElementType::float32, c);
  const BufferId between = list.add_scratch("between", ElementType::float32, kCount);
  const BufferId unused = list.add_scratch("unused", ElementType::float32, 3 * kCount);
  const BufferId result = list.add_output("result", ElementType::float32, kCount);
  const auto spare = [&](std::int64_t i) {
    return BufferArgument{unused, i * kCount * static_cast<std::int64_t>(sizeof(float))};
  };
  const auto n = static_cast<std::int32_t>(kCount);
  list.add_launch(selftest_launch("selftest_arithmetic", kCount,
                                  {BufferArgument{a_id}, BufferArgument{b_id}, BufferArgument{c_id},
                                   spare(0), spare(1), BufferArgument{between}, spare(2), n}));
  list.add_launch(
      selftest_launch("selftest_arithmetic", kCount,
                      {BufferArgument{between}, BufferArgument{b_id}, BufferArgument{c_id},
                       spare(0), BufferArgument{result}, spare(1), spare(2), n}));
  const auto resident = backend.allocate(list);
  resident->upload();
  for (int round = 0; round < kReplays; ++round) {
    if (round > 0) {
      a = round_values(10 * round, 0.375F);
      b = round_values(10 * round + 1, 0.75F);
      resident->upload(a_id, std::as_bytes(std::span(a)));
      resident->upload(b_id, std::as_bytes(std::span(b)));
    }
    if (!tally.ran(resident->run())) break;
    compare_round(tally, round, downloaded<float>(*resident, list, result), a, b, c);
  }
  return std::move(tally).result();
}

SelftestResult check_canaries(Backend& backend, const SelftestOptions&) {
  SelftestTally tally("canaries", "a byte written outside of a buffer is noticed");
  constexpr std::int64_t kSize = 1000;
  for (const std::int64_t where : {std::int64_t{0}, kSize - 1}) {
    const RunReport report = run_stray_write(backend, kSize, where);
    tally.note(report.ok(),
               [&] { return "noticed byte " + std::to_string(where) + ", which lies inside"; });
  }
  for (const std::int64_t where : {std::int64_t{-1}, std::int64_t{-256}, kSize, kSize + 255}) {
    const RunReport report = run_stray_write(backend, kSize, where);
    tally.note(!report.ok(), [&] {
      return "did not notice byte " + std::to_string(where) + " of " + std::to_string(kSize);
    });
  }
  return std::move(tally).result();
}

}  // namespace zerodiff::device
