// What `zerodiff bench` measured, as data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zerodiff::tools {

struct Spread {
  double median = 0;  // seconds
  double p95 = 0;
};

struct StageTime {
  std::string path;   // "unfused", "fused"
  std::string stage;  // a stage, several with '+' between, "insertion" or "whole path"
  std::int64_t launches = 0;
  Spread time{};
  std::int64_t bytes = 0;  // that the stage has to move, read and written (bench_work.h)
  std::int64_t fmas = 0;   // of dot products; 0: it has none
};

struct BenchReport {
  std::string call;        // describe_call
  std::string clock;       // of the device: "device events", "wall clock"
  std::string difference;  // what kept the call from being measured; empty if nothing did
  std::int64_t compared_outputs = 0;  // of both paths, each equal to the reference's to the bit
  int warm_up = 0;                    // runs of each range of launches before those that count
  int runs = 0;
  int rotated = 0;                  // sets of buffers that take turns, so that caches are cold
  std::int64_t resident_bytes = 0;  // of one set
  std::int64_t copy_bytes = 0;      // of the copy that shares are of, read plus written
  Spread copy;
  double peak_fmas_per_second = 0;  // 0: unknown
  std::vector<StageTime> stages;

  double copy_bytes_per_second() const { return static_cast<double>(copy_bytes) / copy.median; }
};

}  // namespace zerodiff::tools
