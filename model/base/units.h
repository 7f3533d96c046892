#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Parses and formats quantities in command lines and summaries.
namespace gradsync {

// Parses a decimal integer. Returns nullopt if `text` is not an integer, or does not fit.
std::optional<int64_t> ParseInteger(std::string_view text);

// Parses a non-negative count, with or without a binary prefix: "4096", "512Ki", "3Mi", "1Gi". Rejects "M",
// because it is ambiguous. Returns nullopt if `text` is not such a count, or is 2^63 or more.
std::optional<int64_t> ParseCount(std::string_view text);
// Parses a count of bytes like ParseCount, optionally followed by "B": "8B", "64KiB", "12Mi".
std::optional<int64_t> ParseByteCount(std::string_view text);

// Returns the shortest exact spelling that ParseCount reads back: "3Mi", "1536Ki", "1000".
std::string FormatCount(int64_t count);
// Formats bytes like FormatCount: "1MiB", "1536KiB", "1000".
std::string FormatByteCount(int64_t bytes);

// Returns a size for users, with three significant digits: "37.1 MiB".
std::string ApproximateBytes(double bytes);

}  // namespace gradsync
