// Captures with a known difference in them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "fixtures/layer_call.h"

namespace zerodiff::test {

// Copies the capture `source` to `target` with one path added: a copy of the path `from`, altered.
void add_altered_path(const std::string& source, const std::filesystem::path& target,
                      const std::string& from, const std::string& name,
                      const std::function<void(Outputs&)>& alter);

// Writes the call of `source` without any path.
void write_without_paths(const std::string& source, const std::filesystem::path& target);

// Copies the capture with one byte of a dataset changed, which its digest then contradicts.
void write_with_wrong_digest(const std::string& source, const std::filesystem::path& target,
                             const std::string& dataset);

// A generated graph batch with block_contiguous storage and a slot buffer, which `alter` may
// change.
void write_graph_call(const std::filesystem::path& target,
                      const std::function<void(LayerCall&)>& alter);

}  // namespace zerodiff::test
