#include "tests/tools/altered_captures.h"

#include "fixtures/capture.h"
#include "fixtures/generator.h"
#include "tests/fixtures/capture_files.h"
#include "tests/fixtures/hdf5_edit.h"

namespace zerodiff::test {

void add_altered_path(const std::string& source, const std::filesystem::path& target,
                      const std::string& from, const std::string& name,
                      const std::function<void(Outputs&)>& alter) {
  CaptureReader reader(source, in_process());
  Outputs outputs = reader.read_path(from);
  alter(outputs);
  add_path(source, target, {name, &outputs, {}});
}

void write_without_paths(const std::string& source, const std::filesystem::path& target) {
  const CaptureReader reader(source, in_process());
  CaptureContents contents;
  contents.call = &reader.call();
  write_capture(target, contents);
}

void write_with_wrong_digest(const std::string& source, const std::filesystem::path& target,
                             const std::string& dataset) {
  std::vector<std::byte> bytes = read_bytes(source);
  const ElementPlace place = place_of(source, dataset);
  bytes.at(place.offset) ^= std::byte{1};
  write_bytes(target, bytes);
}

void write_graph_call(const std::filesystem::path& target,
                      const std::function<void(LayerCall&)>& alter) {
  GeneratorOptions options;
  options.config.num_heads = 4;
  options.config.num_kv_heads = 1;
  options.config.num_index_heads = 1;
  options.config.rotary_dim = 64;
  options.config.rms_norm_eps = 1e-6F;
  options.config.sm_scale = 0.088388346F;
  options.config.num_tokens = 5;
  options.config.kv_storage = KvStorage::block_contiguous;
  options.config.batch_mode = BatchMode::graph;
  options.capacity = 8;
  options.num_requests = 5;
  options.with_page16_buffer = true;
  LayerCall call = generate_call(options);
  alter(call);
  CaptureContents contents;
  contents.call = &call;
  write_capture(target, contents);
}

}  // namespace zerodiff::test
