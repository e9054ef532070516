// Reading a capture's path against a bare H5Dread of the same datasets into warm buffers, and the
// speed of digests, all in one run over the same file (page cache warm).
#include <benchmark/benchmark.h>
#include <hdf5.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "fixtures/capture.h"
#include "fixtures/digest.h"
#include "fixtures/generator.h"

namespace zerodiff::benchmarks {
namespace {

constexpr const char* kPath = "candidate";

LayerCall large_call() {
  GeneratorOptions options;
  options.config.num_heads = 16;
  options.config.num_kv_heads = 1;
  options.config.num_index_heads = 1;
  options.config.rotary_dim = 64;
  options.config.rms_norm_eps = 1e-6F;
  options.config.sm_scale = 0.088388346F;
  options.config.num_tokens = 64;
  options.num_requests = 4;
  options.spare_blocks = 2048;  // pools of 64 MiB each
  return generate_call(options);
}

Outputs outputs_of(const LayerCall& call) {
  Outputs outputs;
  outputs.k_cache = call.k_cache;
  outputs.v_cache = call.v_cache;
  outputs.index_cache = call.index_cache;
  return outputs;
}

// A capture with one path, removed at exit.
class LargeCapture {
 public:
  LargeCapture()
      : file_(std::filesystem::temp_directory_path() /
              ("zerodiff_capture_benchmark_" + std::to_string(getpid()) + ".h5")) {
    const LayerCall call = large_call();
    const Outputs outputs = outputs_of(call);
    CaptureContents contents;
    contents.call = &call;
    contents.paths.push_back({kPath, &outputs, {}});
    write_capture(file_, contents);
    bytes_ = static_cast<std::int64_t>(outputs.k_cache.size_bytes() + outputs.v_cache.size_bytes() +
                                       outputs.index_cache.size_bytes());
  }
  ~LargeCapture() { std::filesystem::remove(file_); }
  LargeCapture(const LargeCapture&) = delete;
  LargeCapture& operator=(const LargeCapture&) = delete;

  const std::filesystem::path& file() const { return file_; }
  std::int64_t bytes() const { return bytes_; }  // of the path's datasets

 private:
  std::filesystem::path file_;
  std::int64_t bytes_ = 0;
};

const LargeCapture& capture() {
  static const LargeCapture instance;
  return instance;
}

void bare_h5dread(benchmark::State& state) {
  const hid_t file = H5Fopen(capture().file().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  std::vector<std::vector<std::byte>> buffers(3);
  const char* const names[] = {"k_cache", "v_cache", "index_cache"};
  for ([[maybe_unused]] auto _ : state) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const std::string name = "/outputs/" + std::string(kPath) + "/" + names[i];
      const hid_t dataset = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
      const hid_t type = H5Dget_type(dataset);
      buffers[i].resize(H5Dget_storage_size(dataset));
      if (H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffers[i].data()) < 0) {
        state.SkipWithError("H5Dread failed");
      }
      H5Tclose(type);
      H5Dclose(dataset);
    }
  }
  H5Fclose(file);
  state.SetBytesProcessed(capture().bytes() * state.iterations());
}

// Argument: whether digests are verified.
void capture_read(benchmark::State& state) {
  ReadOptions options;
  options.verify_digests = state.range(0) != 0;
  CaptureReader reader(capture().file(), options);
  Outputs outputs = reader.read_path(kPath);
  for ([[maybe_unused]] auto _ : state) outputs = reader.read_path(kPath, std::move(outputs));
  state.SetBytesProcessed(capture().bytes() * state.iterations());
}

void digest(benchmark::State& state) {
  const std::vector<std::byte> bytes(std::size_t{64} << 20, std::byte{7});
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(xxh3_128_hex(bytes));
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes.size()) * state.iterations());
}

BENCHMARK(bare_h5dread)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(capture_read)
    ->ArgName("digests")
    ->Arg(1)
    ->Arg(0)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(digest)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace zerodiff::benchmarks
