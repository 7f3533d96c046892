#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "bench/records/record.h"
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

// Valid until the next line.
std::string_view GetText(element value, std::string_view name) {
  return Get<std::string_view>(value, name, "a string");
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
  const object entries = Get<object>(value, name, "an object");
  fields.Reserve(entries.size());
  for (const auto& [key, entry] : entries) {
    fields.Append(key, GetValue(entry, key));
  }
  return fields;
}

// Vectors that are there already are filled anew.
void TakeSamples(element value, std::map<std::string, std::vector<int64_t>>* samples) {
  std::optional<size_t> length;
  const object all = Get<object>(value, "samples", "an object");
  for (const auto& [key, entry] : all) {
    std::vector<int64_t>& series = (*samples)[std::string(key)];
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
  // Those of another record.
  const bool are_these = std::equal(samples->begin(), samples->end(), all.begin(), all.end(),
                                    [](const auto& a, const auto& b) { return a.first == b.key; });
  if (!are_these) {
    std::erase_if(*samples,
                  [&](const auto& series) { return all[series.first].error() != simdjson::SUCCESS; });
  }
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
    if (key == "gradsync_commit") provenance.gradsync_commit = GetText(entry, key);
    if (key == "dirty") provenance.dirty = Get<bool>(entry, key, "true or false");
    if (key == "host") provenance.host = GetText(entry, key);
    if (key == "os") provenance.os = GetText(entry, key);
    if (key == "kernel") provenance.kernel = GetText(entry, key);
    if (key == "cpu_model") provenance.cpu_model = GetText(entry, key);
    if (key == "cpu_count") provenance.cpu_count = GetInt(entry, key);
    if (key == "memory_bytes") provenance.memory_bytes = GetInt(entry, key);
    if (key == "gpu") provenance.gpu = GetText(entry, key);
    if (key == "compiler") provenance.compiler = GetText(entry, key);
    if (key == "build") provenance.build = GetText(entry, key);
    if (key == "libraries") provenance.libraries = GetFields(entry, key);
    if (key == "command_line") provenance.command_line = GetText(entry, key);
    if (key == "clock") provenance.clock = GetText(entry, key);
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
  if (key == "experiment") return record.experiment = GetText(entry, key), kExperiment;
  if (key == "run_id") return record.run_id = GetText(entry, key), kRunId;
  if (key == "rank") return record.rank = GetInt(entry, key), kRank;
  if (key == "world_size") return record.world_size = GetInt(entry, key), kWorldSize;
  if (key == "config") return record.config = GetFields(entry, key), kConfig;
  return 0;
}

void SetBodyField(std::string_view key, element entry, Record& record) {
  if (key == "time_utc") record.time_utc = GetText(entry, key);
  if (key == "samples") TakeSamples(entry, &record.samples);
  if (key == "published") record.published = GetPublished(entry);
  if (key == "buckets") record.buckets = GetBuckets(entry);
  if (key == "checks") record.checks = GetFields(entry, key);
  if (key == "facts") record.facts = GetFields(entry, key);
  if (key == "provenance") record.provenance = GetProvenance(entry);
  if (key == "link") record.link = GetFields(entry, key);
}

enum class Part { kHead, kAll };

// `seen`: what was found elsewhere.
void TakeRecord(object fields, Part part, unsigned seen, Record* record) {
  CheckSchema(fields);
  for (const auto& [key, entry] : fields) {
    const unsigned found = SetHeadField(key, entry, *record);
    seen |= key == "samples" ? kSamples : found;
    if (part == Part::kAll && found == 0) SetBodyField(key, entry, *record);
  }
  CheckComplete(seen, *record);
}

// As a new one, but for samples, which TakeSamples replaces.
void Clear(Record* record) {
  static const Record kNew;
  std::map<std::string, std::vector<int64_t>> samples = std::move(record->samples);
  *record = kNew;
  record->samples = std::move(samples);
}

// What texts mean, for so many of them that were met last.
template <class T>
class Memory {
 public:
  const T* Find(std::string_view text) const {
    const auto found = known_.find(text);
    return found == known_.end() ? nullptr : &found->second;
  }
  const T* Add(std::string_view text, T meaning) {
    if (known_.size() == kMost) known_.clear();
    return &known_.emplace(text, std::move(meaning)).first->second;
  }

 private:
  static constexpr size_t kMost = 256;

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, T, Hash, std::equal_to<>> known_;
};

// The end of a line, from its facts on.
struct Tail {
  std::optional<Fields> facts;
  std::optional<Fields> link;
  std::optional<Provenance> provenance;
};

// A line as ToJsonLine writes it, in parts that each begin with a comma, but for the first.
struct Parts {
  std::string_view front;   // {"schema":...,"world_size":2
  std::string_view config;  // ,"config":{...}
  std::string_view middle;  // ,"samples":...
  std::string_view tail;    // ,"facts":...}  with the line's last brace
};

constexpr std::string_view kConfigBegins = ",\"config\":{";
constexpr std::string_view kSamplesBegin = ",\"samples\":";
constexpr std::string_view kTailBegins = ",\"facts\":{";

// std::string_view::find is slow where the first character is as frequent as commas are.
size_t Find(std::string_view line, std::string_view wanted, size_t from) {
  const void* const found = memmem(line.data() + from, line.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<size_t>(static_cast<const char*>(found) - line.data());
}

// Nullopt if they are not there, or not where they are sure to be what they look like. That `front` holds one
// brace and no bracket says that "config" is a field of the record, or else stands in a text, which then has
// no end in `front` and `middle` put together: inside of texts quotes are escaped. That front, middle and a
// brace are an object says the same of the others.
//
// Of a head nobody looks at the tail: it is left in `middle`.
std::optional<Parts> SplitLine(std::string_view line, Part part) {
  const size_t end = line.find_last_not_of(" \t\r");
  if (end == std::string_view::npos || line[end] != '}') return std::nullopt;
  const size_t config = Find(line, kConfigBegins, 0);
  if (config == std::string_view::npos) return std::nullopt;
  const std::string_view front = line.substr(0, config);
  if (front.rfind('{') != 0 || front.find('[') != std::string_view::npos) return std::nullopt;
  const size_t samples = Find(line, kSamplesBegin, config);
  if (samples == std::string_view::npos) return std::nullopt;
  const size_t tail = part == Part::kHead ? end : std::min(Find(line, kTailBegins, samples), end);
  return Parts{front, line.substr(config, samples - config), line.substr(samples, tail - samples),
               line.substr(tail, end + 1 - tail)};
}

}  // namespace

struct RecordParser::Impl {
  simdjson::dom::parser parser;
  std::string text;  // put together from parts
  Memory<Fields> configs;
  Memory<Tail> tails;

  // What `parts` are put together; nullopt if that is no JSON object.
  std::optional<object> ParseParts(std::initializer_list<std::string_view> parts) {
    text.clear();
    for (const std::string_view part : parts) text += part;
    text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
    object fields;
    constexpr bool kIsPadded = true;
    const auto error = parser.parse(text.data(), text.size(), !kIsPadded).get(fields);
    return error == simdjson::SUCCESS ? std::optional(fields) : std::nullopt;
  }

  // Null if it is not just that.
  const Fields* ConfigOf(std::string_view part) {
    if (const Fields* known = configs.Find(part)) return known;
    const std::optional<object> fields = ParseParts({"{", part.substr(1), "}"});
    if (!fields || fields->size() != 1) return nullptr;
    Fields config = GetFields((*fields->begin()).value, "config");
    config.Share();
    return configs.Add(part, std::move(config));
  }

  const Tail* TailOf(std::string_view part) {
    if (const Tail* known = tails.Find(part)) return known;
    const std::optional<object> fields = ParseParts({"{", part.substr(part.starts_with(',') ? 1 : 0)});
    if (!fields) return nullptr;
    Tail tail;
    for (const auto& [key, entry] : *fields) {
      if (key == "facts") {
        tail.facts = GetFields(entry, key);
        tail.facts->Share();
      } else if (key == "link") {
        tail.link = GetFields(entry, key);
        tail.link->Share();
      } else if (key == "provenance") {
        tail.provenance = GetProvenance(entry);
        tail.provenance->libraries.Share();
      } else {
        return nullptr;
      }
    }
    return tails.Add(part, std::move(tail));
  }

  // False if the line has to be taken as a whole, because it is not of the common form, or is wrong.
  bool ParseCommonForm(std::string_view line, Part part, Record* record) {
    const std::optional<Parts> parts = SplitLine(line, part);
    if (!parts) return false;
    try {
      const Fields* const config = ConfigOf(parts->config);
      const Tail* const tail = part == Part::kAll ? TailOf(parts->tail) : nullptr;
      if (config == nullptr || (part == Part::kAll && tail == nullptr)) return false;
      const std::optional<object> fields = part == Part::kAll
                                               ? ParseParts({parts->front, parts->middle, "}"})
                                               : ParseParts({parts->front, ",\"samples\":{}}"});
      if (!fields) return false;
      record->config = *config;
      TakeRecord(*fields, part, kConfig, record);
      if (tail != nullptr) {
        if (tail->facts) record->facts = *tail->facts;
        if (tail->link) record->link = *tail->link;
        if (tail->provenance) record->provenance = *tail->provenance;
      }
      return true;
    } catch (const Malformed&) {
      return false;
    }
  }

  // Returns the reason why it is none.
  std::string Parse(std::string_view line, Part part, Record* record) {
    Clear(record);
    if (ParseCommonForm(line, part, record)) return "";
    Clear(record);
    element root;
    const simdjson::error_code error = parser.parse(line.data(), line.size()).get(root);
    if (error != simdjson::SUCCESS) {
      const bool cut_off = line.starts_with('{') && !line.ends_with('}');
      return cut_off ? Join("cut off after ", line.size(), " bytes")
                     : Join("not JSON: ", simdjson::error_message(error));
    }
    try {
      if (!root.is_object()) throw Malformed{Join("not a JSON object but ", TypeName(root))};
      TakeRecord(root.get_object().value_unsafe(), part, 0, record);
    } catch (const Malformed& malformed) {
      return malformed.reason;
    }
    return "";
  }
};

RecordParser::RecordParser() : impl_(std::make_unique<Impl>()) {}
RecordParser::~RecordParser() = default;

std::string RecordParser::ParseInto(std::string_view line, Record* record) {
  return impl_->Parse(line, Part::kAll, record);
}

std::string RecordParser::ParseHeadInto(std::string_view line, Record* record) {
  return impl_->Parse(line, Part::kHead, record);
}

ParseResult RecordParser::Parse(std::string_view line) {
  Record record;
  std::string reason = ParseInto(line, &record);
  if (!reason.empty()) return reason;
  return record;
}

ParseResult ParseRecord(std::string_view line) { return RecordParser().Parse(line); }

}  // namespace gradsync::bench
