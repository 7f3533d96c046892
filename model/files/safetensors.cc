#include "model/files/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>

#include "absl/cleanup/cleanup.h"

namespace gradsync::model {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr uint64_t kLengthBytes = 8;
// The limit in the format's own library. It prevents a wrong file from allocating too much memory.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr char kMetadata[] = "__metadata__";

constexpr std::array<std::pair<std::string_view, DType>, 6> kDTypes{{{"F32", DType::kF32},
                                                                     {"F64", DType::kF64},
                                                                     {"BF16", DType::kBF16},
                                                                     {"I32", DType::kI32},
                                                                     {"I64", DType::kI64},
                                                                     {"U8", DType::kU8}}};

std::optional<DType> ParseDType(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  for (const auto& [name, dtype] : kDTypes) {
    if (value.get_ref<const std::string&>() == name) return dtype;
  }
  return std::nullopt;
}

std::string_view FormatDType(DType dtype) {
  return std::find_if(kDTypes.begin(), kDTypes.end(), [=](const auto& pair) { return pair.second == dtype; })
      ->first;
}

// Returns an excerpt of a value of the header for an error message: short and on one line.
std::string Excerpt(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

// Parses the header. The library keeps the last of several equal keys; here equal keys are an error. More
// than the three levels of nesting of the format are also an error, because printing a value with a million
// levels would overflow the stack.
Json ParseHeader(const std::string& path, std::string_view text) {
  std::vector<std::set<std::string>> keys;  // keys of each open object so far
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    Require(depth <= 4, path, ": the header is nested too deeply for a safetensors file");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      Require(keys.back().insert(parsed.get<std::string>()).second, path, ": the header has ",
              Excerpt(parsed), " twice");
    }
    return true;
  };
  Json header;
  try {
    header = Json::parse(text, watch);
  } catch (const Json::parse_error& error) {
    // The message of the library would quote bytes of the file.
    throw InvalidInput(Join(path, ": the header is not valid JSON at its byte ", error.byte));
  } catch (const Json::exception&) {
    throw InvalidInput(Join(path, ": the header has a number that is out of range"));
  }
  Require(header.is_object(), path, ": the header is ", Excerpt(header), ", expected an object of tensors");
  return header;
}

// Parses one tensor of the header. Its data must be in [data_begin, file_bytes) of the file.
SafetensorsFile::Entry ParseEntry(const std::string& path, const std::string& name, const Json& fields,
                                  uint64_t data_begin, uint64_t file_bytes) {
  const std::string where = Join(path, ": tensor ", Excerpt(name), " is ", Excerpt(fields));
  const auto is_size = [](const Json& size) {
    return size.is_number_unsigned() && size.get<uint64_t>() <= uint64_t{INT64_MAX};
  };
  const auto has_sizes = [&](const char* field) {
    return fields.contains(field) && fields[field].is_array() && std::ranges::all_of(fields[field], is_size);
  };
  const std::optional<DType> dtype =
      fields.is_object() ? ParseDType(fields.value("dtype", Json())) : std::nullopt;
  Require(dtype.has_value() && fields.size() == 3 && has_sizes("shape") && has_sizes("data_offsets") &&
              fields["data_offsets"].size() == 2,
          where,
          ", expected dtype F32, F64, BF16, I32, I64 or U8, shape, a list of sizes, and data_offsets, ",
          "[begin, end], only");
  const auto shape = fields["shape"].get<Shape>();
  const auto [begin, end] = fields["data_offsets"].get<std::array<uint64_t, 2>>();
  const uint64_t available = file_bytes - data_begin;
  Require(begin <= end && end <= available, where, ", but the file has ", available,
          " bytes of data: it is truncated or damaged");
  uint64_t wanted_bytes = SizeOf(*dtype);
  bool fits = true;
  for (const int64_t size : shape)
    fits &= !__builtin_mul_overflow(wanted_bytes, static_cast<uint64_t>(size), &wanted_bytes);
  Require(fits && wanted_bytes == end - begin, where, ", which takes ",
          fits ? std::to_string(wanted_bytes) : "more than there are numbers", " bytes of data");
  return {.name = name,
          .dtype = *dtype,
          .shape = shape,
          .offset_bytes = data_begin + begin,
          .size_bytes = end - begin};
}

std::map<std::string, std::string> ParseMetadata(const std::string& path, const Json& fields) {
  try {
    return fields.get<std::map<std::string, std::string>>();
  } catch (const Json::type_error&) {
    throw InvalidInput(
        Join(path, ": ", kMetadata, " is ", Excerpt(fields), ", expected an object of strings"));
  }
}

// Checks that every byte of data belongs to exactly one tensor. `entries` are in the order of their offsets.
void RequireNoGapsAndOverlaps(const std::string& path, const std::vector<SafetensorsFile::Entry>& entries,
                              uint64_t data_begin, uint64_t file_bytes) {
  uint64_t end = data_begin;
  for (const SafetensorsFile::Entry& entry : entries) {
    Require(entry.offset_bytes == end, path, ": the data of tensor ", Excerpt(entry.name), " begins at ",
            entry.offset_bytes - data_begin, ", expected ", end - data_begin, ", where that before it ends");
    end += entry.size_bytes;
  }
  Require(end == file_bytes, path, ": ", file_bytes - end, " bytes at the end belong to no tensor");
}

std::string MakeHeader(const std::string& path, std::span<const std::pair<std::string, Tensor>> tensors,
                       const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::set<std::string_view> names{kMetadata};
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    Require(names.insert(name).second, path, ": cannot write two tensors named '", name, "'");
    header[name] = {{"dtype", FormatDType(tensor.dtype())},
                    {"shape", tensor.shape()},
                    {"data_offsets", {offset, offset + tensor.nbytes()}}};
    offset += tensor.nbytes();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    throw InvalidInput(Join(path, ": cannot write a tensor name or metadata that is not UTF-8"));
  }
  // The header is padded so that data begins at a multiple of 8, for readers that map the file.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// Syncs the directory, because a new name in it is written separately. Some file systems do not support this.
void SyncDirectoryOf(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path();
  const int descriptor =
      open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)) {
  std::error_code error;
  const bool is_regular = std::filesystem::is_regular_file(path_, error);
  Require(!error, path_, ": cannot open: ", error.message());
  Require(is_regular, path_, ": not a regular file");  // Opening a pipe would wait for its writer.
  file_.open(path_, std::ios::binary);
  const std::string reason = std::strerror(errno);
  Require(file_.is_open(), path_, ": cannot open: ", reason);
  const auto file_bytes = static_cast<uint64_t>(file_.seekg(0, std::ios::end).tellg());
  Require(file_bytes >= kLengthBytes, path_, ": ", file_bytes,
          " bytes are too short for a safetensors file, which begins with 8 bytes of header length");
  uint64_t header_bytes = 0;
  Read(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  Require(header_bytes <= kMaxHeaderBytes, path_, ": the header length is ", header_bytes,
          ", expected at most ", kMaxHeaderBytes, ": not a safetensors file");
  Require(header_bytes <= file_bytes - kLengthBytes, path_, ": the header length is ", header_bytes,
          ", but only ", file_bytes - kLengthBytes, " bytes follow: the file is truncated or damaged");
  std::string text(header_bytes, '\0');
  Read(kLengthBytes, std::as_writable_bytes(std::span(text)));

  const uint64_t data_begin = kLengthBytes + header_bytes;
  const Json header = ParseHeader(path_, text);
  for (const auto& [name, fields] : header.items()) {
    if (name == kMetadata) {
      metadata_ = ParseMetadata(path_, fields);
    } else {
      entries_.push_back(ParseEntry(path_, name, fields, data_begin, file_bytes));
    }
  }
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.offset_bytes, a.size_bytes) < std::pair(b.offset_bytes, b.size_bytes);
  });
  RequireNoGapsAndOverlaps(path_, entries_, data_begin, file_bytes);
}

const SafetensorsFile::Entry* SafetensorsFile::Find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  return found == entries_.end() ? nullptr : &*found;
}

const SafetensorsFile::Entry& SafetensorsFile::Get(std::string_view name) const {
  const Entry* entry = Find(name);
  Require(entry != nullptr, path_, ": no tensor '", name, "' among its ", entries_.size());
  return *entry;
}

Tensor SafetensorsFile::Load(std::string_view name, const DevicePtr& device) const {
  const Entry& entry = Get(name);
  Tensor tensor = Tensor::Empty(device, entry.shape, entry.dtype);
  LoadInto(name, tensor);
  return tensor;
}

void SafetensorsFile::LoadInto(std::string_view name, const Tensor& target) const {
  const Entry& entry = Get(name);
  Require(entry.shape == target.shape() && entry.dtype == target.dtype(), path_, ": tensor '", name, "' is ",
          entry.shape, " ", Name(entry.dtype), ", expected ", target.shape(), " ", Name(target.dtype()));
  const Tensor host =
      target.device()->is_cpu() ? target : Tensor::Empty(CpuDevice(), target.shape(), target.dtype());
  Read(entry.offset_bytes, {static_cast<std::byte*>(host.raw_data()), host.nbytes()});
  if (!target.device()->is_cpu()) target.CopyFrom(host);
}

void SafetensorsFile::Read(uint64_t offset_bytes, std::span<std::byte> into) const {
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(offset_bytes));
  if (file_.read(reinterpret_cast<char*>(into.data()), std::ssize(into))) return;
  const std::string reason = std::strerror(errno);
  throw std::runtime_error(file_.eof() ? Join(path_, ": has ended since it was opened, at byte ",
                                              offset_bytes + static_cast<uint64_t>(file_.gcount()))
                                       : Join(path_, ": cannot read: ", reason));
}

void WriteSafetensors(const std::string& path, std::span<const std::pair<std::string, Tensor>> tensors,
                      const std::map<std::string, std::string>& metadata) {
  const std::string header = MakeHeader(path, tensors, metadata);
  const std::string temporary_path = Join(path, ".", gettid(), ".tmp");
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(temporary_path.c_str(), "wbe"), std::fclose);
  const std::string reason = std::strerror(errno);
  Require(file != nullptr, path, ": cannot create: ", reason);
  absl::Cleanup remove = [&] { unlink(temporary_path.c_str()); };
  const auto check = [&](bool ok) {
    if (!ok) throw std::runtime_error(Join(path, ": cannot write: ", std::strerror(errno)));
  };
  const auto write = [&](const void* data, size_t bytes) {
    check(std::fwrite(data, 1, bytes, file.get()) == bytes);
  };
  const uint64_t header_bytes = header.size();
  write(&header_bytes, kLengthBytes);
  write(header.data(), header.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor host = tensor.device()->is_cpu() ? tensor : tensor.To(CpuDevice());
    write(host.raw_data(), host.nbytes());
  }
  check(std::fflush(file.get()) == 0 && fsync(fileno(file.get())) == 0);
  check(std::rename(temporary_path.c_str(), path.c_str()) == 0);
  std::move(remove).Cancel();
  SyncDirectoryOf(path);
}

}  // namespace gradsync::model
