#include "device/host/lane_report.h"

#include <vector>

namespace zerodiff::device {
inline namespace host {
namespace {

// "thread 5", "threads 0-4,6-31"
std::string name_of_threads(const std::vector<std::uint32_t>& threads) {
  std::string text = threads.size() == 1 ? "thread " : "threads ";
  for (std::size_t i = 0; i < threads.size();) {
    std::size_t end = i + 1;
    while (end < threads.size() && threads[end] == threads[end - 1] + 1) ++end;
    if (i != 0) text += ',';
    text += std::to_string(threads[i]);
    if (end - i > 1) text += '-' + std::to_string(threads[end - 1]);
    i = end;
  }
  return text;
}

std::string describe_state(LaneState state, const CallSite& site) {
  if (state == LaneState::returned) return " returned";
  const std::string place = site.file + (':' + std::to_string(site.line));
  return (state == LaneState::at_shuffle ? " at the shuffle of " : " at the barrier of ") + place;
}

}  // namespace

std::string describe_partial(const LaneSpan& lanes, std::uint32_t waiting, std::uint32_t wanted) {
  const auto count = static_cast<std::uint32_t>(lanes.states.size());
  const auto alike = [&](std::uint32_t a, std::uint32_t b) {
    return lanes.states[a] == lanes.states[b] &&
           (lanes.states[a] == LaneState::returned || lanes.sites[a] == lanes.sites[b]);
  };
  std::vector<bool> told(count, false);
  const auto threads_like = [&](std::uint32_t lane) {
    std::vector<std::uint32_t> threads;
    for (std::uint32_t other = 0; other < count; ++other) {
      if (!alike(lane, other)) continue;
      told[other] = true;
      threads.push_back(lanes.first + other);
    }
    return name_of_threads(threads);
  };

  std::string text = "reached by " + threads_like(waiting);
  for (std::uint32_t lane = 0; lane < count; ++lane) {
    if (told[lane]) continue;
    text += "; " + threads_like(lane) + describe_state(lanes.states[lane], lanes.sites[lane]);
  }
  if (count < wanted) {
    std::vector<std::uint32_t> absent;
    for (std::uint32_t lane = count; lane < wanted; ++lane) absent.push_back(lanes.first + lane);
    text += "; the block has no " + name_of_threads(absent);
  }
  return text;
}

}  // namespace host
}  // namespace zerodiff::device
