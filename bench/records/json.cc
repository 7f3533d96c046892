#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/records/record.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

using Json = nlohmann::ordered_json;

// Thrown inside this file only: the reason why a line is no record.
struct Malformed {
  std::string reason;
};

// What a line has, in its order: calls `field(name, member)` with each, to write it or to read it.
template <class ARecord, class Field>
void ForEachField(ARecord& record, const Field& field) {
  field("experiment", record.experiment);
  field("run_id", record.run_id);
  field("time_utc", record.time_utc);
  field("rank", record.rank);
  field("world_size", record.world_size);
  field("config", record.config);
  field("samples", record.samples);
  field("buckets", record.buckets);
  field("checks", record.checks);
  field("facts", record.facts);
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

template <class T>
Json ToJson(const T& value) {
  return value;
}

Json ToJson(const Fields& fields) {
  Json object = Json::object();
  for (const auto& [name, value] : fields) {
    std::visit([&, &name = name](const auto& v) { object[name] = v; }, value);
  }
  return object;
}

Json ToJson(const std::map<std::string, Fields>& published) {
  Json object = Json::object();
  for (const auto& [name, statistics] : published) object[name] = ToJson(statistics);
  return object;
}

Json ToJson(const std::vector<BucketRecord>& buckets) {
  Json array = Json::array();
  for (const auto& [bytes, tensors] : buckets) array.push_back({{"bytes", bytes}, {"tensors", tensors}});
  return array;
}

Json ToJson(const Provenance& provenance) {
  Json object = Json::object();
  ForEachProvenanceField(provenance,
                         [&](const char* name, const auto& value) { object[name] = ToJson(value); });
  return object;
}

std::string TypeName(const Json& json) {
  const std::string name = json.type_name();
  return json.is_null() ? name : (json.is_array() || json.is_object() ? "an " : "a ") + name;
}

void RequireType(bool is_right, const Json& json, std::string_view name, std::string_view wanted) {
  if (!is_right) throw Malformed{Join("\"", name, "\" is ", TypeName(json), ", expected ", wanted)};
}

void FromJson(const Json& json, std::string_view name, std::vector<BucketRecord>* buckets);
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

void FromJson(const Json& json, std::string_view name, std::map<std::string, std::vector<int64_t>>* samples) {
  RequireType(json.is_object(), json, name, "an object");
  std::optional<size_t> length;
  for (const auto& [key, entry] : json.items()) {
    RequireType(entry.is_array(), entry, key, "an array");
    std::vector<int64_t>& series = (*samples)[key];
    series.resize(entry.size());
    for (size_t i = 0; i < series.size(); ++i) FromJson(entry[i], key, &series[i]);
    if (length.value_or(series.size()) != series.size()) {
      throw Malformed{
          Join("samples \"", key, "\" has ", series.size(), " entries, the others have ", *length)};
    }
    length = series.size();
  }
}

void FromJson(const Json& json, std::string_view name, std::map<std::string, Fields>* published) {
  RequireType(json.is_object(), json, name, "an object");
  for (const auto& [key, entry] : json.items()) FromJson(entry, key, &(*published)[key]);
}

// Sets `value` if `object` has such a name.
template <class T>
void TakeField(const Json& object, const char* name, T* value) {
  if (const auto found = object.find(name); found != object.end()) FromJson(*found, name, value);
}

void FromJson(const Json& json, std::string_view name, std::vector<BucketRecord>* buckets) {
  RequireType(json.is_array(), json, name, "an array");
  for (const Json& entry : json) {
    RequireType(entry.is_object(), entry, name, "objects");
    BucketRecord& bucket = buckets->emplace_back();
    TakeField(entry, "bytes", &bucket.bytes);
    TakeField(entry, "tensors", &bucket.tensors);
  }
}

void FromJson(const Json& json, std::string_view name, Provenance* provenance) {
  RequireType(json.is_object(), json, name, "an object");
  ForEachProvenanceField(*provenance, [&](const char* key, auto& value) { TakeField(json, key, &value); });
}

Record FromJson(const Json& json) {
  if (!json.is_object()) throw Malformed{Join("not a JSON object but ", TypeName(json))};
  // First, so that a line of another program or version is told as such.
  if (!json.contains("schema")) throw Malformed{"no \"schema\": not a gradsync record"};
  std::string schema;
  TakeField(json, "schema", &schema);
  if (schema != kRecordSchema)
    throw Malformed{Join("schema \"", schema, "\", expected \"", kRecordSchema, "\"")};
  for (const char* name : {"experiment", "run_id", "rank", "world_size", "config", "samples"}) {
    if (!json.contains(name)) throw Malformed{Join("no \"", name, "\"")};
  }
  Record record;
  ForEachField(record, [&](const char* name, auto& value) { TakeField(json, name, &value); });
  if (record.world_size < 1 || record.rank < 0 || record.rank >= record.world_size) {
    throw Malformed{Join("rank ", record.rank, " of world size ", record.world_size)};
  }
  return record;
}

}  // namespace

std::string ToJsonLine(const Record& record) {
  Json json{{"schema", kRecordSchema}};
  ForEachField(record, [&](const char* name, const auto& value) { json[name] = ToJson(value); });
  if (record.link.empty()) json.erase("link");
  if (record.published.empty()) json.erase("published");
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ParseResult ParseRecord(std::string_view line) {
  try {
    // The library takes a zero for the end of the text, and would not look at what follows.
    const size_t zero = line.find('\0');
    if (zero != std::string_view::npos) throw Malformed{Join("not JSON: wrong at byte ", zero + 1)};
    return FromJson(Json::parse(line));
  } catch (const Malformed& malformed) {
    return malformed.reason;
  } catch (const Json::parse_error& error) {
    const bool cut_off = line.starts_with('{') && !line.ends_with('}');
    return cut_off ? Join("cut off after ", line.size(), " bytes")
                   : Join("not JSON: wrong at byte ", error.byte);
  } catch (const Json::out_of_range&) {
    return "not JSON: a number too large";
  }
}

}  // namespace gradsync::bench
