#include "tools/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "fixtures/error.h"

namespace zerodiff::tools {
namespace {

namespace fs = std::filesystem;

Error cannot_write(const fs::path& file) {
  return Error::infrastructure(file.string(),
                               fmt::format("cannot write: {}", std::strerror(errno)));
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  // close() can be where a full disk shows (network file systems).
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// mkstemp makes the file private; the finished one gets what the user's umask allows.
mode_t default_permissions() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return static_cast<mode_t>(0666) & ~mask;
}

void write_directly(const fs::path& file, std::string_view text) {
  Descriptor out(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (out.number() < 0 || !write_all(out.number(), text) || !out.close()) throw cannot_write(file);
}

}  // namespace

void check_writable(const fs::path& file, std::string_view option) {
  std::error_code ignored;
  const fs::path folder = folder_of(file);
  if (!fs::is_directory(folder, ignored)) {
    throw Error::usage(fmt::format("{} {}: the folder does not exist", option, file.string()));
  }
  if (!file.has_filename() || fs::is_directory(file, ignored)) {
    throw Error::usage(fmt::format("{} {}: is a folder", option, file.string()));
  }
  const bool renamed_into_place = !fs::exists(file, ignored) || fs::is_regular_file(file, ignored);
  if (renamed_into_place && ::access(folder.c_str(), W_OK) != 0) throw cannot_write(file);
}

void write_file_atomically(const fs::path& file, std::string_view text) {
  std::error_code ignored;
  if (fs::exists(file, ignored) && !fs::is_regular_file(file, ignored)) {
    return write_directly(file, text);
  }
  std::string temporary = (folder_of(file) / (file.filename().string() + ".tmp.XXXXXX")).string();
  Descriptor out(::mkostemp(temporary.data(), O_CLOEXEC));
  if (out.number() < 0) throw cannot_write(file);
  const bool complete =
      write_all(out.number(), text) && ::fchmod(out.number(), default_permissions()) == 0 &&
      ::fsync(out.number()) == 0 && out.close() && ::rename(temporary.c_str(), file.c_str()) == 0;
  if (complete) return;
  const Error error = cannot_write(file);
  ::unlink(temporary.c_str());
  throw error;
}

}  // namespace zerodiff::tools
