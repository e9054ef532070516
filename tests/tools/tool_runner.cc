#include "tests/tools/tool_runner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "tests/fixtures/capture_files.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX declares it nowhere

namespace zerodiff::test {
namespace {

class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  void write_to(int descriptor, const std::string& file) {
    posix_spawn_file_actions_addopen(&actions_, descriptor, file.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  }
  void duplicate(int from, int to) { posix_spawn_file_actions_adddup2(&actions_, from, to); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

bool overrides(const Environment& environment, const std::string& entry) {
  const std::string name = entry.substr(0, entry.find('=') + 1);
  for (const std::string& other : environment) {
    if (other.starts_with(name)) return true;
  }
  return false;
}

// The test's own environment without what would change colours, then the given one.
std::vector<std::string> merged(const Environment& environment) {
  std::vector<std::string> result = environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (text.starts_with("NO_COLOR=") || text.starts_with("TERM=")) continue;
    if (!overrides(environment, text)) result.push_back(text);
  }
  return result;
}

pid_t spawn(const std::vector<std::string>& arguments, const Environment& environment,
            const SpawnActions& actions) {
  std::vector<std::string> argument_strings{ZERODIFF_TOOL};
  argument_strings.insert(argument_strings.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment_strings = merged(environment);
  const auto argv = pointers(argument_strings);
  const auto envp = pointers(environment_strings);
  pid_t child = 0;
  if (posix_spawn(&child, ZERODIFF_TOOL, actions.get(), nullptr, argv.data(), envp.data()) != 0) {
    throw std::runtime_error("cannot start " ZERODIFF_TOOL);
  }
  return child;
}

void wait_for(pid_t child, ToolRun& run) {
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child) throw std::runtime_error("wait4 failed");
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  run.peak_kib = usage.ru_maxrss;
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

ToolRun run_into_files(const std::vector<std::string>& arguments, const Environment& environment,
                       std::string out_file) {
  const TemporaryFolder folder;
  const bool own_file = out_file.empty();
  if (own_file) out_file = (folder / "out").string();
  SpawnActions actions;
  actions.write_to(STDOUT_FILENO, out_file);
  actions.write_to(STDERR_FILENO, (folder / "err").string());
  ToolRun run;
  wait_for(spawn(arguments, environment, actions), run);
  if (own_file) run.out = read_text(out_file);
  run.err = read_text(folder / "err");
  return run;
}

// Reads until every writer is gone: Linux then answers EIO.
std::string read_terminal(int terminal) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t count = read(terminal, buffer.data(), buffer.size());
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

ToolRun run_tool(const std::vector<std::string>& arguments, const Environment& environment) {
  return run_into_files(arguments, environment, "");
}

ToolRun run_tool_into(const std::string& file, const std::vector<std::string>& arguments) {
  return run_into_files(arguments, {}, file);
}

ToolRun run_tool_on_terminal(const std::vector<std::string>& arguments,
                             const Environment& environment) {
  int terminal = -1;
  int program_side = -1;
  if (openpty(&terminal, &program_side, nullptr, nullptr, nullptr) != 0) {
    throw std::runtime_error("no terminal");
  }
  SpawnActions actions;
  actions.duplicate(program_side, STDOUT_FILENO);
  actions.duplicate(program_side, STDERR_FILENO);
  const pid_t child = spawn(arguments, environment, actions);
  close(program_side);
  ToolRun run;
  run.out = read_terminal(terminal);
  wait_for(child, run);
  close(terminal);
  return run;
}

std::string captured(const std::string& name) {
  return "fixtures/captured/m3_small_" + name + ".h5";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool is_one_error_line(const std::string& err) {
  return err.starts_with("zerodiff: ") && err.find('\n') == err.size() - 1;
}

}  // namespace zerodiff::test
