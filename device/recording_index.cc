#include "device/recording_index.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "fixtures/error.h"

namespace zerodiff::device {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "zerodiff.recording";
constexpr int kVersion = 1;

Json json_extent(const Extent3& extent) {
  return Json::array({extent.x, extent.y, extent.z});
}

std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// The bits decide; the value is for readers, and is null where JSON has no such number.
Json json_float(float value) {
  Json json{{"type", "float32"}, {"bits", bits_of(value)}};
  json["value"] = std::isfinite(value) ? Json(value) : Json();
  return json;
}

Json json_argument(const LaunchList& list, const Argument& argument) {
  return std::visit(
      [&]<class T>(const T& value) -> Json {
        if constexpr (std::is_same_v<T, BufferArgument>) {
          return {{"type", "buffer"},
                  {"buffer", value.buffer.index},
                  {"name", list.buffer(value.buffer).name},
                  {"byte_offset", value.byte_offset}};
        } else if constexpr (std::is_same_v<T, NullArgument>) {
          return {{"type", "null"}};
        } else if constexpr (std::is_same_v<T, float>) {
          return json_float(value);
        } else {
          constexpr const char* kName = std::is_same_v<T, std::int32_t>    ? "int32"
                                        : std::is_same_v<T, std::uint32_t> ? "uint32"
                                                                           : "int64";
          return {{"type", kName}, {"value", value}};
        }
      },
      argument);
}

Json json_launch(const LaunchList& list, const Launch& launch) {
  Json arguments = Json::array();
  for (const Argument& argument : launch.arguments) {
    arguments.push_back(json_argument(list, argument));
  }
  return {{"kernel", launch.kernel},
          {"grid", json_extent(launch.grid)},
          {"block", json_extent(launch.block)},
          {"lds_bytes", launch.lds_bytes},
          {"arguments", std::move(arguments)}};
}

Json json_file(const RecordedFile& file) {
  return {{"file", file.name}, {"xxh3_128", file.xxh3_128}};
}

Json json_buffer(const BufferDescription& buffer, const RecordedFile& before,
                 const RecordedFile& after) {
  return {{"name", buffer.name},
          {"element_type", zerodiff::name_of(buffer.type)},
          {"count", buffer.count},
          {"bytes", buffer.size_bytes()},
          {"role", name_of(buffer.role)},
          {"initial", name_of(buffer.initial.kind)},
          {"fill", std::to_integer<int>(buffer.initial.fill)},
          {"before", json_file(before)},
          {"after", json_file(after)}};
}

// A JSON value together with its place in the document.
class Node {
 public:
  Node(const Json& json, std::string place) : json_(json), place_(std::move(place)) {}

  Node operator[](const char* key) const {
    if (!json_.is_object() || !json_.contains(key))
      fail("an object with \"" + std::string(key) + "\"");
    return {json_[key], place_ + "/" + key};
  }
  std::vector<Node> items() const {
    if (!json_.is_array()) fail("an array");
    std::vector<Node> nodes;
    for (const Json& item : json_)
      nodes.emplace_back(item, place_ + "/" + std::to_string(nodes.size()));
    return nodes;
  }
  std::string text() const {
    if (!json_.is_string()) fail("a string");
    return json_.get<std::string>();
  }
  template <class T>
  T integer() const {
    if (json_.is_number_unsigned() && std::in_range<T>(json_.get<std::uint64_t>())) {
      return static_cast<T>(json_.get<std::uint64_t>());
    }
    if (!json_.is_number_integer() || json_.is_number_unsigned() ||
        !std::in_range<T>(json_.get<std::int64_t>())) {
      fail("an integer of " + std::to_string(8 * sizeof(T)) + " bits");
    }
    return static_cast<T>(json_.get<std::int64_t>());
  }
  template <class T, std::size_t kCount>
  T one_of(const std::array<T, kCount>& values) const {
    const std::string name = text();
    for (const T value : values) {
      if (name == name_of(value)) return value;
    }
    fail("a known name");
  }
  [[noreturn]] void fail(const std::string& wanted) const {
    throw Error::input(place_, "recording index", json_.dump().substr(0, 60), wanted);
  }

 private:
  const Json& json_;
  std::string place_;
};

Extent3 parse_extent(const Node& node) {
  const std::vector<Node> sizes = node.items();
  if (sizes.size() != 3) node.fail("three sizes");
  return {sizes[0].integer<std::uint32_t>(), sizes[1].integer<std::uint32_t>(),
          sizes[2].integer<std::uint32_t>()};
}

Argument parse_argument(const Node& node) {
  const std::string type = node["type"].text();
  if (type == "buffer") {
    return BufferArgument{{node["buffer"].integer<std::uint32_t>()},
                          node["byte_offset"].integer<std::int64_t>()};
  }
  if (type == "null") return NullArgument{};
  if (type == "int32") return node["value"].integer<std::int32_t>();
  if (type == "uint32") return node["value"].integer<std::uint32_t>();
  if (type == "int64") return node["value"].integer<std::int64_t>();
  if (type != "float32") node["type"].fail("a known argument type");
  const auto bits = node["bits"].integer<std::uint32_t>();
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

Launch parse_launch(const Node& node) {
  Launch launch{.kernel = node["kernel"].text(),
                .grid = parse_extent(node["grid"]),
                .block = parse_extent(node["block"]),
                .lds_bytes = node["lds_bytes"].integer<std::int64_t>()};
  for (const Node& argument : node["arguments"].items()) {
    launch.arguments.push_back(parse_argument(argument));
  }
  return launch;
}

// Names become paths: nothing but a plain file beside the index.
RecordedFile parse_file(const Node& node) {
  RecordedFile file{node["file"].text(), node["xxh3_128"].text()};
  if (file.name.empty() || file.name.front() == '.' || file.name.find('/') != std::string::npos) {
    node["file"].fail("a file name");
  }
  return file;
}

BufferDescription parse_buffer(const Node& node) {
  constexpr std::array kRoles{BufferRole::input, BufferRole::output, BufferRole::inout,
                              BufferRole::scratch};
  constexpr std::array kKinds{InitialContent::Kind::bytes, InitialContent::Kind::fill,
                              InitialContent::Kind::unwritten};
  const std::optional<ElementType> type = element_type_from_name(node["element_type"].text());
  if (!type) node["element_type"].fail("an element type");
  const auto count = node["count"].integer<std::int64_t>();
  if (count < 0 || count > LaunchList::kMaxElements) node["count"].fail("an element count");
  return {.name = node["name"].text(),
          .type = *type,
          .count = count,
          .role = node["role"].one_of(kRoles),
          .initial = {.kind = node["initial"].one_of(kKinds),
                      .fill = std::byte{node["fill"].integer<std::uint8_t>()}}};
}

RecordingIndex parse_document(const Node& document) {
  if (document["format"].text() != kFormat) document["format"].fail(kFormat);
  if (document["version"].integer<int>() != kVersion) document["version"].fail("1");
  RecordingIndex index;
  index.info.backend = document["backend"].text();
  index.info.wave_width = document["wave_width"].integer<int>();
  for (const Node& buffer : document["buffers"].items()) {
    index.list.add_buffer(parse_buffer(buffer));
    index.info.before.push_back(parse_file(buffer["before"]));
    index.info.after.push_back(parse_file(buffer["after"]));
  }
  for (const Node& launch : document["launches"].items()) {
    index.list.add_launch(parse_launch(launch));
  }
  return index;
}

}  // namespace

std::string recording_index_text(const LaunchList& list, const RecordingInfo& info) {
  Json buffers = Json::array();
  for (std::size_t i = 0; i < list.buffers().size(); ++i) {
    buffers.push_back(json_buffer(list.buffers()[i], info.before[i], info.after[i]));
  }
  Json launches = Json::array();
  for (const Launch& launch : list.launches()) launches.push_back(json_launch(list, launch));
  const Json document{{"format", kFormat},
                      {"version", kVersion},
                      {"zerodiff", ZERODIFF_VERSION},
                      {"backend", info.backend},
                      {"wave_width", info.wave_width},
                      {"buffers", std::move(buffers)},
                      {"launches", std::move(launches)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

RecordingIndex parse_recording_index(const std::string& text, const std::string& where) {
  Json document;
  try {
    document = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw Error::input(where, "recording index", error.what(), "JSON");
  }
  return parse_document(Node(document, where));
}

}  // namespace zerodiff::device
