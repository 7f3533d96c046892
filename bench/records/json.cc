#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "bench/records/record.h"
#include "bench/records/schema.h"
#include "model/base/error.h"

namespace gradsync::bench {

using Json = nlohmann::ordered_json;

// nlohmann::json finds these functions by their names.
static void to_json(Json& json, const Fields& fields) {
  json = Json::object();
  for (const auto& [name, value] : fields) {
    std::visit([&, &name = name](const auto& held) { json[name] = held; }, value);
  }
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

// The corresponding macro of the library works only with nlohmann::json, which sorts names.
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
              compiler, build, libraries, command_line, clock)
GRADSYNC_JSON(Variant, framework, strategy, options, backend, backend_options, compiled, tuned)
#undef GRADSYNC_JSON

namespace {

using Series = SampleSeries::Map;

// An exception with the reason why a line is not a record. It is thrown inside this file only.
struct Malformed {
  std::string reason;
};

// Calls `field` with the members that a continuation line also has.
template <class ARecord, class Field>
void ForEachGrowingField(ARecord& record, const Field& field) {
  field("samples", record.samples.by_name());
  field("buckets", record.buckets);
  field("checks", record.checks);
  field("facts", record.facts);
}

// Calls `field(name, member)` with each member of a record's first line, in order, to write it or to read it.
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
    Json& part = json[ScopeOf(name) == Scope::kCell ? "cell" : "run"];
    std::visit([&, &name = name](const auto& held) { part[name] = held; }, value);
  }
  return json;
}

// Returns the shape of a line: the names of members, with example values of their types. null means any plain
// value, and "*" any other name.
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

// Throws Malformed unless `json` has the shape. The conversions of nlohmann::json would accept 1.5 as 1.
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

// A line of a file: a record's first line or a continuation line.
struct Line {
  Record record;
  int64_t of = -1;  // number of the continued record; negative for a first line
};

Line FromJson(const Json& json) {
  if (!json.is_object()) throw Malformed{Join("not a JSON object but ", TypeName(json))};
  // This is checked first, so that the message for a line of another program or version is clear.
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

// Returns the reason why `more` cannot be appended to `begun`; empty if it can.
std::string LengthFault(const Series& begun, const Series& more) {
  std::map<std::string_view, size_t> lengths;
  for (const Series* const part : {&begun, &more}) {
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
  // The library interprets a zero as the end of the text, and would ignore the following characters.
  const size_t zero = line.find('\0');
  if (zero != std::string_view::npos) throw Malformed{Join("not JSON: error at byte ", zero + 1)};
  Line parsed = FromJson(Json::parse(line));
  if (parsed.of < 0) {
    records->push_back(std::move(parsed.record));
    return "";
  }
  // Usually one of the last records is continued.
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
