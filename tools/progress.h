// A line on standard error that says what is going on, once the work has taken a second.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace zerodiff::tools {

// Silent unless standard error is a terminal. The line is gone when the object is, so the report on
// standard output is never torn.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is being done from now on ("m3_decode.h5: reading atom_fused").
  void now(std::string_view what);
  // Takes the line away until the next now(): call it before printing anything else.
  void clear();

 private:
  void draw_until_stopped(const std::stop_token& stop);
  void draw();   // with mutex_ held
  void erase();  // with mutex_ held

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::string what_;
  std::size_t drawn_columns_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::jthread thread_;  // last: it stops before the rest goes
};

}  // namespace zerodiff::tools
