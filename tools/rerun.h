// Command lines to copy and paste.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace zerodiff::tools {

// The argument as a POSIX shell needs it: quoted only if it must be.
std::string shell_quoted(std::string_view argument);

// "zerodiff verify --paths atom_fused file.h5"; `options` may be empty.
std::string rerun_line(std::string_view command, std::string_view options,
                       const std::filesystem::path& file);

}  // namespace zerodiff::tools
