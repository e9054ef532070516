#include "tools/command_line_options.h"

#include <map>

namespace zerodiff::tools {
namespace {

constexpr int kMostThreads = 1024;
constexpr std::int64_t kLargestMemory = std::int64_t{1} << 50;

}  // namespace

OutputOptions Arguments::reporting() const {
  static const std::map<std::string, ColorMode> kModes{
      {"auto", ColorMode::automatic}, {"always", ColorMode::always}, {"never", ColorMode::never}};
  return {json, no_color ? ColorMode::never : kModes.at(color)};
}

void add_reading_options(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--max-memory", arguments.max_memory,
                  "Refuse datasets that take more: bytes, or 512MiB, 4G")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{1}, static_cast<std::uint64_t>(kLargestMemory)))
      ->option_text("SIZE [16GiB]");
}

void add_thread_option(CLI::App& command, Arguments& arguments) {
  command.add_option("--threads", arguments.threads, "Threads to use; 0 for one a core")
      ->check(CLI::Range(0, kMostThreads))
      ->option_text("N [0]");
}

void add_reporting_options(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--json", arguments.json,
                  "Also write the report as JSON; '-': print it in place of\nthe table")
      ->option_text("FILE");
  auto* color = command
                    .add_option("--color", arguments.color,
                                "auto (a terminal without NO_COLOR), always or never")
                    ->check(CLI::IsMember({"auto", "always", "never"}))
                    ->option_text("WHEN [auto]");
  command.add_flag("--no-color", arguments.no_color, "The same as --color=never")
      ->excludes(color)
      ->option_text(" ");
}

void add_device_options(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--device", arguments.device,
                  "Where kernels run: auto, none, or a name that\n'zerodiff devices' lists; verify "
                  "takes several, cuda:0,1")
      ->option_text("NAME [auto]");
  command
      .add_option("--wave", arguments.wave_width, "Lanes of a wave that the host device emulates")
      ->check(CLI::IsMember({32, 64}))
      ->option_text("32|64 [32]");
}

}  // namespace zerodiff::tools
