#include <simdjson.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bench/record.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::object;

// Thrown inside this file only: the reason why a line is no record.
struct Malformed {
  std::string reason;
};

std::string_view TypeName(element value) {
  switch (value.type()) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "a boolean";
    case element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

template <class T>
T Get(element value, std::string_view name, std::string_view wanted) {
  T result;
  if (value.get(result) != simdjson::SUCCESS) {
    throw Malformed{Join("\"", name, "\" is ", TypeName(value), ", expected ", wanted)};
  }
  return result;
}

std::string GetString(element value, std::string_view name) {
  return std::string(Get<std::string_view>(value, name, "a string"));
}

int64_t GetInt(element value, std::string_view name) { return Get<int64_t>(value, name, "a whole number"); }

Value GetValue(element value, std::string_view name) {
  switch (value.type()) {
    case element_type::BOOL:
      return value.get_bool().value_unsafe();
    case element_type::INT64:
      return value.get_int64().value_unsafe();
    case element_type::UINT64:
      return static_cast<double>(value.get_uint64().value_unsafe());
    case element_type::DOUBLE:
      return value.get_double().value_unsafe();
    case element_type::NULL_VALUE:
      return std::numeric_limits<double>::quiet_NaN();
    case element_type::STRING:
      return std::string(value.get_string().value_unsafe());
    default:
      throw Malformed{Join("\"", name, "\" is ", TypeName(value), ", expected a plain value")};
  }
}

Fields GetFields(element value, std::string_view name) {
  Fields fields;
  for (const auto& [key, entry] : Get<object>(value, name, "an object")) {
    fields.Append(key, GetValue(entry, key));
  }
  return fields;
}

std::map<std::string, std::vector<int64_t>> GetSamples(element value) {
  std::map<std::string, std::vector<int64_t>> samples;
  std::optional<size_t> length;
  for (const auto& [key, entry] : Get<object>(value, "samples", "an object")) {
    std::vector<int64_t>& series = samples[std::string(key)];
    series.clear();
    const array entries = Get<array>(entry, key, "an array");
    series.reserve(entries.size());
    for (const element sample : entries) series.push_back(GetInt(sample, key));
    if (length && *length != series.size()) {
      throw Malformed{
          Join("samples \"", key, "\" has ", series.size(), " entries, the others have ", *length)};
    }
    length = series.size();
  }
  return samples;
}

std::map<std::string, Fields> GetPublished(element value) {
  std::map<std::string, Fields> published;
  for (const auto& [key, entry] : Get<object>(value, "published", "an object")) {
    published[std::string(key)] = GetFields(entry, key);
  }
  return published;
}

std::vector<BucketRecord> GetBuckets(element value) {
  std::vector<BucketRecord> buckets;
  for (const element entry : Get<array>(value, "buckets", "an array")) {
    BucketRecord& bucket = buckets.emplace_back();
    for (const auto& [key, number] : Get<object>(entry, "buckets", "objects")) {
      if (key == "bytes") bucket.bytes = GetInt(number, key);
      if (key == "tensors") bucket.tensors = GetInt(number, key);
    }
  }
  return buckets;
}

Provenance GetProvenance(element value) {
  Provenance provenance;
  for (const auto& [key, entry] : Get<object>(value, "provenance", "an object")) {
    if (key == "gradsync_commit") provenance.gradsync_commit = GetString(entry, key);
    if (key == "dirty") provenance.dirty = Get<bool>(entry, key, "true or false");
    if (key == "host") provenance.host = GetString(entry, key);
    if (key == "os") provenance.os = GetString(entry, key);
    if (key == "kernel") provenance.kernel = GetString(entry, key);
    if (key == "cpu_model") provenance.cpu_model = GetString(entry, key);
    if (key == "cpu_count") provenance.cpu_count = GetInt(entry, key);
    if (key == "memory_bytes") provenance.memory_bytes = GetInt(entry, key);
    if (key == "gpu") provenance.gpu = GetString(entry, key);
    if (key == "compiler") provenance.compiler = GetString(entry, key);
    if (key == "build") provenance.build = GetString(entry, key);
    if (key == "libraries") provenance.libraries = GetFields(entry, key);
    if (key == "command_line") provenance.command_line = GetString(entry, key);
    if (key == "clock") provenance.clock = GetString(entry, key);
  }
  return provenance;
}

enum Seen : unsigned { kExperiment = 1, kRunId = 2, kRank = 4, kWorldSize = 8, kConfig = 16, kSamples = 32 };

// First, so that a line of another program or version is told as such.
void CheckSchema(object fields) {
  element schema;
  if (fields["schema"].get(schema) != simdjson::SUCCESS) {
    throw Malformed{"no \"schema\": not a gradsync record"};
  }
  const std::string_view found = Get<std::string_view>(schema, "schema", "a string");
  if (found != kRecordSchema)
    throw Malformed{Join("schema \"", found, "\", expected \"", kRecordSchema, "\"")};
}

void CheckComplete(unsigned seen, const Record& record) {
  constexpr std::pair<Seen, std::string_view> kNeeded[] = {
      {kExperiment, "experiment"}, {kRunId, "run_id"},  {kRank, "rank"},
      {kWorldSize, "world_size"},  {kConfig, "config"}, {kSamples, "samples"}};
  for (const auto& [flag, name] : kNeeded) {
    if ((seen & flag) == 0) throw Malformed{Join("no \"", name, "\"")};
  }
  if (record.world_size < 1 || record.rank < 0 || record.rank >= record.world_size) {
    throw Malformed{Join("rank ", record.rank, " of world size ", record.world_size)};
  }
}

// Returns what it was, of Seen.
unsigned SetHeadField(std::string_view key, element entry, Record& record) {
  if (key == "experiment") return record.experiment = GetString(entry, key), kExperiment;
  if (key == "run_id") return record.run_id = GetString(entry, key), kRunId;
  if (key == "rank") return record.rank = GetInt(entry, key), kRank;
  if (key == "world_size") return record.world_size = GetInt(entry, key), kWorldSize;
  if (key == "config") return record.config = GetFields(entry, key), kConfig;
  return 0;
}

void SetBodyField(std::string_view key, element entry, Record& record) {
  if (key == "time_utc") record.time_utc = GetString(entry, key);
  if (key == "samples") record.samples = GetSamples(entry);
  if (key == "published") record.published = GetPublished(entry);
  if (key == "buckets") record.buckets = GetBuckets(entry);
  if (key == "checks") record.checks = GetFields(entry, key);
  if (key == "facts") record.facts = GetFields(entry, key);
  if (key == "provenance") record.provenance = GetProvenance(entry);
  if (key == "link") record.link = GetFields(entry, key);
}

enum class Part { kHead, kAll };

Record GetRecord(element root, Part part) {
  if (!root.is_object()) throw Malformed{Join("not a JSON object but ", TypeName(root))};
  const object fields = root.get_object().value_unsafe();
  CheckSchema(fields);
  Record record;
  unsigned seen = 0;
  for (const auto& [key, entry] : fields) {
    const unsigned found = SetHeadField(key, entry, record);
    seen |= key == "samples" ? kSamples : found;
    if (part == Part::kAll && found == 0) SetBodyField(key, entry, record);
  }
  CheckComplete(seen, record);
  return record;
}

}  // namespace

struct RecordParser::Impl {
  simdjson::dom::parser parser;
  std::string head;

  ParseResult Parse(std::string_view line, Part part) {
    element root;
    const simdjson::error_code error = parser.parse(line.data(), line.size()).get(root);
    if (error != simdjson::SUCCESS) {
      const bool cut_off = line.starts_with('{') && !line.ends_with('}');
      return cut_off ? Join("cut off after ", line.size(), " bytes")
                     : Join("not JSON: ", simdjson::error_message(error));
    }
    try {
      return GetRecord(root, part);
    } catch (const Malformed& malformed) {
      return malformed.reason;
    }
  }

  // Samples and what follows them are most of a line. Inside a string the quotes would be escaped, so what is
  // found here is the name of a field; should it be one of "config", the part before it is no JSON. A line
  // that was cut off is told now, so that it does not stand in for a whole one of the same head.
  ParseResult ParseHead(std::string_view line) {
    const size_t end = line.find_last_not_of(" \t\r");
    const bool is_whole = end != std::string_view::npos && line[end] == '}';
    const size_t samples = is_whole ? line.find(",\"samples\":") : std::string_view::npos;
    if (samples != std::string_view::npos) {
      head = line.substr(0, samples);
      head += ",\"samples\":{}}";
      ParseResult result = Parse(head, Part::kHead);
      if (std::holds_alternative<Record>(result)) return result;
    }
    return Parse(line, Part::kHead);
  }
};

RecordParser::RecordParser() : impl_(std::make_unique<Impl>()) {}
RecordParser::~RecordParser() = default;

ParseResult RecordParser::Parse(std::string_view line) { return impl_->Parse(line, Part::kAll); }

ParseResult RecordParser::ParseHead(std::string_view line) { return impl_->ParseHead(line); }

ParseResult ParseRecord(std::string_view line) { return RecordParser().Parse(line); }

}  // namespace gradsync::bench
