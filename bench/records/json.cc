#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "bench/records/record.h"
#include "bench/records/schema.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

using Json = nlohmann::ordered_json;
using Series = std::map<std::string, std::vector<int64_t>>;

// Thrown inside this file only: the reason why a line is no record.
struct Malformed {
  std::string reason;
};

// What a continuation line has too.
template <class ARecord, class Field>
void ForEachGrowingField(ARecord& record, const Field& field) {
  field("samples", record.samples);
  field("moments", record.moments);
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
  field("config", record.config);
  ForEachGrowingField(record, field);
  field("provenance", record.provenance);
  field("link", record.link);
  field("published", record.published);
}

template <class AProvenance, class Field>
void ForEachProvenanceField(AProvenance& provenance, const Field& field) {
  field("gradsync_commit", provenance.gradsync_commit);
  field("dirty", provenance.dirty);
  field("host", provenance.host);
  field("os", provenance.os);
  field("kernel", provenance.kernel);
  field("cpu_model", provenance.cpu_model);
  field("cpu_count", provenance.cpu_count);
  field("memory_bytes", provenance.memory_bytes);
  field("gpu", provenance.gpu);
  field("compiler", provenance.compiler);
  field("build", provenance.build);
  field("libraries", provenance.libraries);
  field("command_line", provenance.command_line);
  field("clock", provenance.clock);
}

}  // namespace

// nlohmann::json finds these by their names.
static void to_json(Json& json, const Fields& fields) {
  json = Json::object();
  for (const auto& [name, value] : fields) {
    std::visit([&, &name = name](const auto& v) { json[name] = v; }, value);
  }
}

static void to_json(Json& json, const BucketRecord& bucket) {
  json = {{"bytes", bucket.bytes}, {"tensors", bucket.tensors}};
}

static void to_json(Json& json, const Provenance& provenance) {
  json = Json::object();
  ForEachProvenanceField(provenance, [&](const char* name, const auto& value) { json[name] = value; });
}

namespace {

std::string TypeName(const Json& json) {
  const std::string name = json.type_name();
  return json.is_null() ? name : (json.is_array() || json.is_object() ? "an " : "a ") + name;
}

void RequireType(bool is_right, const Json& json, std::string_view name, std::string_view wanted) {
  if (!is_right) throw Malformed{Join("\"", name, "\" is ", TypeName(json), ", expected ", wanted)};
}

void FromJson(const Json& json, std::string_view name, BucketRecord* bucket);
void FromJson(const Json& json, std::string_view name, Provenance* provenance);

void FromJson(const Json& json, std::string_view name, std::string* text) {
  RequireType(json.is_string(), json, name, "a string");
  *text = json.get_ref<const std::string&>();
}

void FromJson(const Json& json, std::string_view name, bool* value) {
  RequireType(json.is_boolean(), json, name, "true or false");
  *value = json.get<bool>();
}

bool FitsInt64(const Json& json) {
  return json.is_number_integer() &&
         !(json.is_number_unsigned() && json.get<uint64_t>() > std::numeric_limits<int64_t>::max());
}

void FromJson(const Json& json, std::string_view name, int64_t* number) {
  RequireType(FitsInt64(json), json, name, "a whole number");
  *number = json.get<int64_t>();
}

void FromJson(const Json& json, std::string_view name, Value* value) {
  RequireType(json.is_primitive(), json, name, "a plain value");
  if (json.is_boolean()) {
    *value = json.get<bool>();
  } else if (json.is_string()) {
    *value = json.get<std::string>();
  } else if (FitsInt64(json)) {
    *value = json.get<int64_t>();
  } else {
    *value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
  }
}

void FromJson(const Json& json, std::string_view name, Fields* fields) {
  RequireType(json.is_object(), json, name, "an object");
  for (const auto& [key, entry] : json.items()) {
    Value value;
    FromJson(entry, key, &value);
    fields->Set(key, std::move(value));
  }
}

template <class T>
void FromJson(const Json& json, std::string_view name, std::vector<T>* entries) {
  RequireType(json.is_array(), json, name, "an array");
  entries->resize(json.size());
  for (size_t i = 0; i < entries->size(); ++i) FromJson(json[i], name, &(*entries)[i]);
}

template <class T>
void FromJson(const Json& json, std::string_view name, std::map<std::string, T>* entries) {
  RequireType(json.is_object(), json, name, "an object");
  for (const auto& [key, entry] : json.items()) FromJson(entry, key, &(*entries)[key]);
}

// Sets `value` if `object` has such a name.
template <class T>
void TakeField(const Json& object, const char* name, T* value) {
  if (const auto found = object.find(name); found != object.end()) FromJson(*found, name, value);
}

void FromJson(const Json& json, std::string_view name, BucketRecord* bucket) {
  RequireType(json.is_object(), json, name, "an object");
  TakeField(json, "bytes", &bucket->bytes);
  TakeField(json, "tensors", &bucket->tensors);
}

void FromJson(const Json& json, std::string_view name, Provenance* provenance) {
  RequireType(json.is_object(), json, name, "an object");
  ForEachProvenanceField(*provenance, [&](const char* key, auto& value) { TakeField(json, key, &value); });
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
  std::string schema;
  TakeField(json, "schema", &schema);
  if (schema != kRecordSchema)
    throw Malformed{Join("schema \"", schema, "\", expected \"", kRecordSchema, "\"")};
  Line line;
  Record& record = line.record;
  TakeField(json, "of", &line.of);
  const auto take = [&](const char* name, auto& value) { TakeField(json, name, &value); };
  if (line.of >= 0) {
    ForEachGrowingField(record, take);
  } else {
    for (const char* const name : {"experiment", "run_id", "rank", "world_size", "config", "samples"}) {
      if (!json.contains(name)) throw Malformed{Join("no \"", name, "\"")};
    }
    ForEachField(record, take);
    if (record.world_size < 1 || record.rank < 0 || record.rank >= record.world_size) {
      throw Malformed{Join("rank ", record.rank, " of world size ", record.world_size)};
    }
  }
  for (const std::string& fault : WrongTypes(record)) throw Malformed{fault};
  Record empty;
  if (std::string fault = Append(record, &empty); !fault.empty()) throw Malformed{std::move(fault)};
  return line;
}

std::string ToLine(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Why `more` cannot be put behind `begun`; empty if it can.
std::string LengthFault(const char* what, const Series& begun, const Series& more) {
  std::map<std::string_view, size_t> lengths;
  for (const Series* const part : {&begun, &more}) {
    for (const auto& [name, values] : *part) lengths[name] += values.size();
  }
  for (const auto& [name, length] : lengths) {
    const size_t others = lengths.begin()->second;
    if (length != others)
      return Join(what, " \"", name, "\" has ", length, " entries, the others have ", others);
  }
  return "";
}

void AppendTo(Series* begun, const Series& more) {
  for (const auto& [name, values] : more) {
    std::vector<int64_t>& all = (*begun)[name];
    all.insert(all.end(), values.begin(), values.end());
  }
}

}  // namespace

std::string ToJsonLine(const Record& record) {
  Json json{{"schema", kRecordSchema}};
  ForEachField(record, [&](const char* name, const auto& value) { json[name] = value; });
  if (record.number < 0) json.erase("record");
  for (const char* const name : {"moments", "link", "published"}) {
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
  std::string fault = LengthFault("samples", record->samples, more.samples);
  if (fault.empty()) fault = LengthFault("moments", record->moments, more.moments);
  if (!fault.empty()) return fault;
  AppendTo(&record->samples, more.samples);
  AppendTo(&record->moments, more.moments);
  if (!more.buckets.empty()) record->buckets = more.buckets;
  for (const auto& [name, value] : more.checks) record->checks.Set(name, value);
  for (const auto& [name, value] : more.facts) record->facts.Set(name, value);
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

}  // namespace gradsync::bench
