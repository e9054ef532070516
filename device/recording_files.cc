#include "device/recording_files.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <system_error>

#include "fixtures/error.h"

namespace zerodiff::device {

namespace fs = std::filesystem;

std::string recording_file_name(std::size_t index, std::string name, std::string_view state) {
  std::string number = std::to_string(index);
  number.insert(0, number.size() < 3 ? 3 - number.size() : 0, '0');
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '_' && c != '-' && c != '.'; },
      '_');
  return number + "_" + name + "." + std::string(state) + ".bin";
}

void write_recording_file(const fs::path& file, std::span<const std::byte> bytes) {
  const fs::path unfinished = file.string() + ".tmp." + std::to_string(getpid());
  std::ofstream stream(unfinished, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  stream.close();
  std::error_code failure;
  if (stream) fs::rename(unfinished, file, failure);
  if (stream && !failure) return;
  std::error_code ignored;
  fs::remove(unfinished, ignored);
  throw Error::infrastructure(file.string(), "cannot be written");
}

std::vector<std::byte> read_recording_file(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Error::input(file.string(), "file", "none", "a file of the recording");
  std::vector<std::byte> bytes;
  std::error_code failure;
  bytes.resize(static_cast<std::size_t>(fs::file_size(file, failure)));
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (failure || !stream) throw Error::infrastructure(file.string(), "cannot be read");
  return bytes;
}

}  // namespace zerodiff::device
