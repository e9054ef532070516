// Files that are complete or absent.
#pragma once

#include <filesystem>
#include <string_view>

namespace zerodiff::tools {

// Refuses a target before any work is done for it: throws Error, kUsage if its folder does not
// exist or it is a folder itself, kInfrastructure if its folder cannot be written to.
void check_writable(const std::filesystem::path& file, std::string_view option);

// Writes the whole text under a temporary name in the same folder, flushes it to the disk and
// renames it. On failure nothing is left behind and an older file of that name is unharmed.
// A target that exists and is no regular file (/dev/stdout, a pipe) is written directly.
// Throws Error (kInfrastructure).
void write_file_atomically(const std::filesystem::path& file, std::string_view text);

}  // namespace zerodiff::tools
