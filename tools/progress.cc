#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "tools/terminal.h"

namespace zerodiff::tools {
namespace {

constexpr std::chrono::milliseconds kPeriod{250};
constexpr std::chrono::seconds kSilence{1};
constexpr std::size_t kTimeColumns = 12;

}  // namespace

Progress::Progress() {
  if (isatty(STDERR_FILENO) == 1) {
    thread_ = std::jthread([this](const std::stop_token& stop) { draw_until_stopped(stop); });
  }
}

Progress::~Progress() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  clear();
}

void Progress::now(std::string_view what) {
  const std::scoped_lock lock(mutex_);
  what_ = printable(what);
}

void Progress::clear() {
  const std::scoped_lock lock(mutex_);
  erase();
  what_.clear();
}

void Progress::draw_until_stopped(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake_.wait_for(lock, stop, kPeriod, [] { return false; });
    if (!stop.stop_requested()) draw();
  }
}

void Progress::draw() {
  const auto elapsed = std::chrono::steady_clock::now() - start_;
  if (what_.empty() || elapsed < kSilence) return;
  const double seconds = std::chrono::duration<double>(elapsed).count();
  erase();
  const std::string line =
      fmt::format("{:.0f} s  {:.{}}", seconds, what_, kReportColumns - kTimeColumns);
  fmt::print(stderr, "{}", line);
  std::fflush(stderr);
  drawn_columns_ = display_width(line);
}

// With spaces: no escape codes, so that NO_COLOR and simple terminals need no other way.
void Progress::erase() {
  if (drawn_columns_ == 0) return;
  fmt::print(stderr, "\r{:{}}\r", "", drawn_columns_);
  std::fflush(stderr);
  drawn_columns_ = 0;
}

}  // namespace zerodiff::tools
