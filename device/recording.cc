#include "device/recording.h"

#include <unistd.h>

#include <cstdint>
#include <span>
#include <system_error>
#include <utility>

#include "device/recording_files.h"
#include "device/recording_index.h"
#include "fixtures/digest.h"
#include "fixtures/error.h"

namespace zerodiff::device {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexName = "index.json";

using Contents = std::vector<std::vector<std::byte>>;

// A directory under a name of its own until it is complete; gone if it never is.
class UnfinishedDirectory {
 public:
  explicit UnfinishedDirectory(const fs::path& target)
      : target_(target), path_(target.string() + ".tmp." + std::to_string(getpid())) {
    std::error_code failure;
    if (fs::exists(target, failure)) throw Error::usage(target.string() + " exists already");
    fs::create_directories(path_, failure);
    if (failure) throw Error::infrastructure(path_.string(), failure.message());
  }
  UnfinishedDirectory(const UnfinishedDirectory&) = delete;
  UnfinishedDirectory& operator=(const UnfinishedDirectory&) = delete;
  ~UnfinishedDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  const fs::path& path() const { return path_; }
  void publish() const {
    std::error_code failure;
    fs::rename(path_, target_, failure);
    if (failure) throw Error::infrastructure(target_.string(), failure.message());
  }

 private:
  fs::path target_;
  fs::path path_;
};

Contents download_all(const ResidentLaunchList& resident, const LaunchList& list) {
  Contents contents;
  for (std::uint32_t i = 0; i < list.buffers().size(); ++i) {
    auto& bytes = contents.emplace_back(static_cast<std::size_t>(list.buffer({i}).size_bytes()));
    resident.download({i}, bytes);
  }
  return contents;
}

std::vector<RecordedFile> write_contents(const fs::path& directory, const LaunchList& list,
                                         const Contents& contents, const char* state) {
  std::vector<RecordedFile> files;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const std::string name = recording_file_name(i, list.buffers()[i].name, state);
    write_recording_file(directory / name, contents[i]);
    files.push_back({name, xxh3_128_hex(contents[i])});
  }
  return files;
}

Contents read_contents(const fs::path& directory, const LaunchList& list,
                       const std::vector<RecordedFile>& files) {
  Contents contents;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string where = (directory / files[i].name).string();
    const std::int64_t wanted = list.buffers()[i].size_bytes();
    const auto& bytes = contents.emplace_back(read_recording_file(where));
    if (std::cmp_not_equal(bytes.size(), wanted)) {
      throw Error::input(where, "size", std::to_string(bytes.size()) + " bytes",
                         std::to_string(wanted));
    }
    const std::string digest = xxh3_128_hex(bytes);
    if (digest != files[i].xxh3_128) {
      throw Error::input(where, "xxh3_128", digest, files[i].xxh3_128);
    }
  }
  return contents;
}

}  // namespace

RunReport record(Backend& backend, const LaunchList& list, const fs::path& directory) {
  const UnfinishedDirectory unfinished(directory);
  const auto resident = backend.allocate(list);
  resident->upload();
  RecordingInfo info{.backend = std::string(backend.name()), .wave_width = backend.wave_width()};
  info.before = write_contents(unfinished.path(), list, download_all(*resident, list), "before");
  RunReport report = resident->run();
  if (!report.ok()) return report;
  info.after = write_contents(unfinished.path(), list, download_all(*resident, list), "after");
  const std::string index = recording_index_text(list, info);
  write_recording_file(unfinished.path() / kIndexName, std::as_bytes(std::span(index)));
  unfinished.publish();
  return report;
}

Recording read_recording(const fs::path& directory) {
  const fs::path index_file = directory / kIndexName;
  const std::vector<std::byte> text = read_recording_file(index_file);
  RecordingIndex index = parse_recording_index(
      {reinterpret_cast<const char*>(text.data()), text.size()}, index_file.string());
  Recording recording{.backend = std::move(index.info.backend),
                      .wave_width = index.info.wave_width,
                      .list = std::move(index.list)};
  recording.before = read_contents(directory, recording.list, index.info.before);
  recording.after = read_contents(directory, recording.list, index.info.after);
  for (std::uint32_t i = 0; i < recording.before.size(); ++i) {
    InitialContent initial = recording.list.buffer({i}).initial;
    if (initial.kind == InitialContent::Kind::bytes) initial.bytes = recording.before[i];
    recording.list.set_initial({i}, initial);
  }
  try {
    recording.list.check();
  } catch (const Error& error) {
    throw error.inside(index_file.string());
  }
  return recording;
}

}  // namespace zerodiff::device
