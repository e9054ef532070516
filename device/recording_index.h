// The JSON index of a recording, to and from a launch list. No files are touched here.
#pragma once

#include <string>
#include <vector>

#include "device/launch_list.h"

namespace zerodiff::device {

// The file of one state of a buffer, beside the index.
struct RecordedFile {
  std::string name;
  std::string xxh3_128;
};

// What the index says beside the list.
struct RecordingInfo {
  std::string backend;  // that ran it
  int wave_width = 0;
  std::vector<RecordedFile> before{};  // in the order of the list's buffers
  std::vector<RecordedFile> after{};
};

std::string recording_index_text(const LaunchList& list, const RecordingInfo& info);

// Contents of kind `bytes` are still empty in the list.
struct RecordingIndex {
  LaunchList list;
  RecordingInfo info;
};

// Throws Error (input, at `where` and the place in the document) with the first thing that breaks
// the format.
RecordingIndex parse_recording_index(const std::string& text, const std::string& where);

}  // namespace zerodiff::device
