// The files of a recording: their names, and whole ones in and out.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zerodiff::device {

// "003_k_cache.before.bin" for buffer 3; `state` is "before", "after" or "result". Characters that
// file systems or shells may not like become '_'.
std::string recording_file_name(std::size_t index, std::string name, std::string_view state);

// Writes the whole file or leaves what was there. Throws Error (infrastructure) if it cannot.
void write_recording_file(const std::filesystem::path& file, std::span<const std::byte> bytes);
// Throws Error: input if there is none, infrastructure if it cannot be read.
std::vector<std::byte> read_recording_file(const std::filesystem::path& file);

}  // namespace zerodiff::device
