#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gradsync {

// Parses a decimal integer. Returns nullopt if `text` is not an integer, or the integer does not fit into
// int64_t.
std::optional<int64_t> ParseInteger(std::string_view text);

// Parses a non-negative count, with or without a binary prefix: "4096", "512Ki", "3Mi", "1Gi". Returns
// nullopt if `text` is not a count, or the count is 2^63 or more. "3M" is not a count, because M may mean
// 10^6 or 2^20.
std::optional<int64_t> ParseCount(std::string_view text);
// Parses a number of bytes, with or without a binary prefix and a "B": "8", "8B", "64KiB", "12Mi". Returns
// nullopt if `text` is not such a number, or the number is 2^63 or more.
std::optional<int64_t> ParseByteCount(std::string_view text);

// Formats a count exactly, with the largest binary prefix that divides it: "3Mi", "1536Ki", "1000". For count
// >= 0, ParseCount(FormatCount(count)) returns `count`.
std::string FormatCount(int64_t count);
// Formats a number of bytes exactly, with the largest binary prefix that divides it: "1MiB", "1536KiB",
// "1000".
std::string FormatByteCount(int64_t bytes);

// Formats a number of bytes with about three significant digits: "37.1 MiB", "1023 KiB", "80 bytes".
std::string ApproximateBytes(double bytes);

}  // namespace gradsync
