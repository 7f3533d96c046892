#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Quantities in command lines and summaries.
namespace gradsync {

// A decimal integer. Nullopt if `text` is not one, or does not fit.
std::optional<int64_t> ParseInteger(std::string_view text);

// A non-negative count, with a binary prefix or without: "4096", "512Ki", "3Mi", "1Gi". "M" is rejected,
// because it is ambiguous. Nullopt if `text` is not such a count, or is 2^63 or more.
std::optional<int64_t> ParseCount(std::string_view text);
// A count of bytes: like ParseCount, and "B" may follow: "8B", "64KiB", "12Mi".
std::optional<int64_t> ParseByteCount(std::string_view text);

// The shortest exact spelling that ParseCount reads back: "3Mi", "1536Ki", "1000".
std::string FormatCount(int64_t count);
// Like FormatCount, for bytes: "1MiB", "1536KiB", "1000".
std::string FormatByteCount(int64_t bytes);

// A size for people, with three significant digits: "37.1 MiB".
std::string ApproximateBytes(double bytes);

}  // namespace gradsync
