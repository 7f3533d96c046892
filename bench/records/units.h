#ifndef GRADSYNC_BENCH_RECORDS_UNITS_H_
#define GRADSYNC_BENCH_RECORDS_UNITS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Quantities as people write them on a command line and read them in a summary.
namespace gradsync::bench {

// A number of bytes: "4096", "8B", "64KiB", "1MiB", "1GiB". Units are binary and must be spelled so; "MB" is
// refused, because it means two things. Nullopt if `text` is no such count, or is 2^63 or more.
std::optional<int64_t> ParseByteCount(std::string_view text);

// The shortest exact spelling that ParseByteCount reads back: "1MiB", "1536KiB", "1000".
std::string FormatByteCount(int64_t bytes);

// A number of elements: "4096", "512Ki", "3Mi", "1Gi". Nullopt if `text` is no such count, or is 2^63 or
// more.
std::optional<int64_t> ParseElementCount(std::string_view text);

// The shortest exact spelling that ParseElementCount reads back: "3Mi", "1536Ki", "1000".
std::string FormatElementCount(int64_t elements);

// A rounded size for people: "37.1 MiB".
std::string ApproximateBytes(double bytes);

// "60s", "1.5s", "500ms", "2m", "1h". Nullopt if `text` is no such duration, or is not positive.
std::optional<std::chrono::milliseconds> ParseDuration(std::string_view text);

// A decimal integer with nothing before or after it.
std::optional<int64_t> ParseInteger(std::string_view text);

// Three significant digits with a fitting unit: "371 ms", "1.25 s".
std::string ApproximateDuration(double ns);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_RECORDS_UNITS_H_
