#include "bench/records/record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <system_error>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/records/schema.h"
#include "model/base/error.h"

namespace gradsync::bench {

using Json = nlohmann::ordered_json;

// nlohmann::json finds these by their names.
static void to_json(Json& json, const Fields& fields) {
  json = Json::object();
  for (const auto& [name, value] : fields)
    std::visit([&, &name = name](const auto& held) { json[name] = held; }, value);
}

static bool FitsInt64(const Json& json) {
  return json.is_number_integer() &&
         !(json.is_number_unsigned() && json.get<uint64_t>() > std::numeric_limits<int64_t>::max());
}

static void from_json(const Json& json, Fields& fields) {
  for (const auto& [name, held] : json.items()) {
    fields.Set(name, held.is_boolean()  ? Value(held.get<bool>())
                     : held.is_string() ? Value(held.get<std::string>())
                     : FitsInt64(held)  ? Value(held.get<int64_t>())
                     : held.is_null()   ? Value(std::numeric_limits<double>::quiet_NaN())
                                        : Value(held.get<double>()));
  }
}

// The library's own macro of this kind is for nlohmann::json alone, which sorts names.
#define GRADSYNC_JSON(Type, ...)                                                            \
  static void to_json(Json& nlohmann_json_j, const Type& nlohmann_json_t) {                 \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, __VA_ARGS__))                \
  }                                                                                         \
  static void from_json(const Json& nlohmann_json_j, Type& nlohmann_json_t) {               \
    const Type nlohmann_json_default_obj;                                                   \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM_WITH_DEFAULT, __VA_ARGS__)) \
  }

GRADSYNC_JSON(BucketRecord, bytes, tensors, collective)
GRADSYNC_JSON(Provenance, gradsync_commit, dirty, host, os, kernel, cpu_model, cpu_count, memory_bytes, gpu,
              compiler, build, libraries, command_line, base_command, clock)
GRADSYNC_JSON(Variant, framework, strategy, options, backend, backend_options, compiled, tuned)
#undef GRADSYNC_JSON

namespace {

template <class T>
T Get(const Value* value, T fallback) {
  const T* const held = value == nullptr ? nullptr : std::get_if<T>(value);
  return held == nullptr ? std::move(fallback) : *held;
}

std::string UtcNow(const char* format) { return absl::FormatTime(format, absl::Now(), absl::UTCTimeZone()); }

using Samples = SampleSeries::Map;

// Thrown inside this file only: the reason why a line is no record.
struct Malformed {
  std::string reason;
};

// What a continuation line has too.
template <class ARecord, class Field>
void ForEachGrowingField(ARecord& record, const Field& field) {
  field("samples", record.samples.by_name());
  field("buckets", record.buckets);
  field("checks", record.checks);
  field("facts", record.facts);
}

// What a record's line has, in its order: calls `field(name, member)` with each, to write it or to read it.
template <class ARecord, class Field>
void ForEachField(ARecord& record, const Field& field) {
  field("record", record.number);
  field("experiment", record.experiment);
  field("run_id", record.run_id);
  field("time_utc", record.time_utc);
  field("rank", record.rank);
  field("world_size", record.world_size);
  field("variant", record.variant);
  ForEachGrowingField(record, field);
  field("provenance", record.provenance);
  field("link", record.link);
  field("published", record.published);
}

Json ToJson(const Record& record) {
  Json json{{"schema", kRecordSchema}};
  ForEachField(record, [&](const char* name, const auto& value) { json[name] = value; });
  json["run"] = json["cell"] = Json::object();
  for (const auto& [name, value] : record.config) {
    Json& part = json[ScopeOf(name) == Scope::kSetting ? "cell" : "run"];
    std::visit([&, &name = name](const auto& held) { part[name] = held; }, value);
  }
  return json;
}

// What a line must look like: the names of members with values of their kinds, where null is any plain value
// and "*" any other name.
const Json& Shape() {
  static const Json shape = [] {
    Json like = ToJson(Record());
    const Json fields{{"*", nullptr}}, series{{"*", Json::array({0})}};
    for (const char* const name : {"run", "cell", "checks", "facts", "link"}) like[name] = fields;
    like["samples"] = series;
    like["published"]["*"] = like["provenance"]["libraries"] = fields;
    like["variant"]["options"] = like["variant"]["backend_options"] = Json{{"*", ""}};
    like["buckets"] = Json::array({BucketRecord()});
    like["of"] = 0;
    return like;
  }();
  return shape;
}

std::string TypeName(const Json& json) {
  const std::string name = json.type_name();
  return json.is_null() ? name : (json.is_array() || json.is_object() ? "an " : "a ") + name;
}

// Throws Malformed for what is not like the shape: the conversions of nlohmann::json would take 1.5 for 1.
void RequireShape(const Json& json, const Json& like, std::string_view name) {
  const auto require = [&](bool is_right, const char* wanted) {
    if (!is_right) throw Malformed{Join("\"", name, "\" is ", TypeName(json), ", expected ", wanted)};
  };
  if (like.is_object()) {
    require(json.is_object(), "an object");
    for (const auto& [key, value] : json.items()) {
      const auto known = like.contains(key) ? like.find(key) : like.find("*");
      if (known != like.end()) RequireShape(value, *known, key);
    }
  } else if (like.is_array()) {
    require(json.is_array(), "an array");
    for (const Json& value : json) RequireShape(value, like[0], name);
  } else if (like.is_null()) {
    require(json.is_primitive(), "a plain value");
  } else if (like.is_string()) {
    require(json.is_string(), "a string");
  } else if (like.is_boolean()) {
    require(json.is_boolean(), "true or false");
  } else {
    require(FitsInt64(json), "a whole number");
  }
}

// A line of a file, whichever kind it is.
struct Line {
  Record record;
  int64_t of = -1;  // what it continues; negative: nothing
};

Line FromJson(const Json& json) {
  if (!json.is_object()) throw Malformed{Join("not a JSON object but ", TypeName(json))};
  // First, so that a line of another program or version is told as such.
  if (!json.contains("schema")) throw Malformed{"no \"schema\": not a gradsync record"};
  if (json["schema"] != kRecordSchema) {
    throw Malformed{Join("schema ", json["schema"].dump(), ", expected \"", kRecordSchema,
                         "\": measure again with this version")};
  }
  RequireShape(json, Shape(), "");
  Line line;
  Record& record = line.record;
  line.of = json.value("of", line.of);
  const auto take = [&](const char* name, auto& value) {
    if (const auto found = json.find(name); found != json.end()) found->get_to(value);
  };
  if (line.of >= 0) {
    ForEachGrowingField(record, take);
  } else {
    for (const char* const name :
         {"experiment", "run_id", "rank", "world_size", "variant", "run", "cell", "samples"}) {
      if (!json.contains(name)) throw Malformed{Join("no \"", name, "\"")};
    }
    ForEachField(record, take);
    take("run", record.config);
    take("cell", record.config);
    if (record.world_size < 1 || record.rank < 0 || record.rank >= record.world_size)
      throw Malformed{Join("rank ", record.rank, " of world size ", record.world_size)};
  }
  for (const std::string& fault : WrongTypes(record)) throw Malformed{fault};
  Record empty;
  if (std::string fault = Append(record, &empty); !fault.empty()) throw Malformed{std::move(fault)};
  return line;
}

std::string ToLine(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Why `more` cannot be put behind `begun`; empty if it can.
std::string LengthFault(const Samples& begun, const Samples& more) {
  std::map<std::string_view, size_t> lengths;
  for (const Samples* const part : {&begun, &more}) {
    for (const auto& [name, values] : *part) lengths[name] += values.size();
  }
  for (const auto& [name, length] : lengths) {
    const size_t others = lengths.begin()->second;
    if (length != others)
      return Join("samples \"", name, "\" has ", length, " entries, the others have ", others);
  }
  return "";
}

}  // namespace

void Fields::Set(std::string_view name, Value value) {
  const auto entry = std::ranges::find(entries_, name, &std::pair<std::string, Value>::first);
  if (entry == entries_.end()) {
    entries_.emplace_back(name, std::move(value));
  } else {
    entry->second = std::move(value);
  }
}

const Value* Fields::Find(std::string_view name) const {
  const auto entry = std::ranges::find(entries_, name, &std::pair<std::string, Value>::first);
  return entry == entries_.end() ? nullptr : &entry->second;
}

bool Fields::BoolOr(std::string_view name, bool fallback) const { return Get(Find(name), fallback); }

int64_t Fields::IntOr(std::string_view name, int64_t fallback) const { return Get(Find(name), fallback); }

double Fields::DoubleOr(std::string_view name, double fallback) const {
  const Value* const value = Find(name);
  const bool is_int = value != nullptr && std::holds_alternative<int64_t>(*value);
  return is_int ? static_cast<double>(std::get<int64_t>(*value)) : Get(value, fallback);
}

std::string Fields::StringOr(std::string_view name, std::string_view fallback) const {
  return Get(Find(name), std::string(fallback));
}

std::string MachineOf(const Record& record) { return record.facts.StringOr("boot", record.provenance.host); }

std::string ToJsonLine(const Record& record) {
  Json json = ToJson(record);
  if (record.number < 0) json.erase("record");
  for (const char* const name : {"link", "published"}) {
    if (json[name].empty()) json.erase(name);
  }
  return ToLine(json);
}

std::string ToContinuationLine(int64_t of, const Record& more) {
  Json json{{"schema", kRecordSchema}, {"of", of}};
  ForEachGrowingField(more, [&](const char* name, const auto& value) {
    if (!value.empty()) json[name] = value;
  });
  return ToLine(json);
}

std::string Append(const Record& more, Record* record) {
  std::string fault = LengthFault(record->samples.by_name(), more.samples.by_name());
  if (!fault.empty()) return fault;
  for (const auto& [name, values] : more.samples) {
    std::vector<int64_t>& all = record->samples.by_name()[name];
    all.insert(all.end(), values.begin(), values.end());
  }
  if (!more.buckets.empty()) record->buckets = more.buckets;
  record->checks.SetAll(more.checks);
  record->facts.SetAll(more.facts);
  return "";
}

std::string AddLine(std::string_view line, std::vector<Record>* records) try {
  // The library takes a zero for the end of the text, and would not look at what follows.
  const size_t zero = line.find('\0');
  if (zero != std::string_view::npos) throw Malformed{Join("not JSON: error at byte ", zero + 1)};
  Line parsed = FromJson(Json::parse(line));
  if (parsed.of < 0) {
    records->push_back(std::move(parsed.record));
    return "";
  }
  // Mostly one of the last.
  const auto begun = std::find_if(records->rbegin(), records->rend(),
                                  [&](const Record& record) { return record.number == parsed.of; });
  if (begun == records->rend()) return Join("more of record ", parsed.of, ", which is not there");
  return Append(parsed.record, &*begun);
} catch (const Malformed& malformed) {
  return malformed.reason;
} catch (const Json::parse_error& error) {
  const bool cut_off = line.starts_with('{') && !line.ends_with('}');
  return cut_off ? Join("cut off after ", line.size(), " bytes")
                 : Join("not JSON: error at byte ", error.byte);
} catch (const Json::out_of_range&) {
  return "not JSON: a number too large";
}

RecordWriter::RecordWriter(const std::string& dir, std::string_view experiment, std::string_view run_id,
                           int64_t rank)
    : path_(Join(dir, "/", experiment, ".", run_id, ".rank", rank, ".jsonl")) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  Require(!error, "cannot create directory ", dir, ": ", error.message());
  file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const std::string reason = std::strerror(errno);
  Require(file_ >= 0, "cannot open ", path_, ": ", reason);
  struct stat status {};
  Require(fstat(file_, &status) != 0 || status.st_size == 0, path_, ": there is such a file already");
}

RecordWriter::~RecordWriter() { close(file_); }

int64_t RecordWriter::Begin(const Record& record) {
  Record numbered = record;
  numbered.number = num_records_++;
  unwritten_ += ToJsonLine(numbered) + "\n";
  return numbered.number;
}

void RecordWriter::Continue(int64_t of, const Record& more) {
  unwritten_ += ToContinuationLine(of, more) + "\n";
}

void RecordWriter::Write() {
  struct stat status {};
  if (fstat(file_, &status) == 0 && status.st_nlink == 0)
    throw std::runtime_error(Join("cannot write ", path_, ": the file was removed"));
  std::string_view left = unwritten_;
  while (!left.empty()) {
    const ssize_t n = write(file_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw std::runtime_error(Join("cannot write ", path_, ": ", std::strerror(errno)));
    left.remove_prefix(static_cast<size_t>(n));
  }
  unwritten_.clear();
}

void RecordWriter::WriteToDisk() {
  Write();
  // Devices cannot be synced, and do not need it.
  if (fsync(file_) == 0 || errno == EINVAL || errno == EROFS) return;
  throw std::runtime_error(Join("cannot flush ", path_, ": ", std::strerror(errno)));
}

std::string NewRunId() {
  return absl::StrFormat("%s-%04x", UtcNow("%Y%m%dT%H%M%S"), std::random_device()() & 0xffffU);
}

std::string NowUtc() { return UtcNow("%Y-%m-%dT%H:%M:%SZ"); }

}  // namespace gradsync::bench
