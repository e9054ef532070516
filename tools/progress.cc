#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "tools/terminal.h"

namespace zerodiff::tools {
namespace {

constexpr std::chrono::milliseconds kPeriod{250};
constexpr std::chrono::seconds kSilence{1};

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

void Progress::now(std::string what) {
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
  fmt::print(stderr, "\r\x1b[K{:.0f} s  {:.{}}", seconds, what_, kReportColumns - 12);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::erase() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace zerodiff::tools
