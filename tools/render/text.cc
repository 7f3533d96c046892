#include "tools/render/text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_replace.h"
#include "model/error.h"

namespace gradsync::tools {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80; }

// The length of the well-formed UTF-8 sequence at the front of `text`; 0 if there is none (RFC 3629, section
// 4), or if XML does not allow its character.
size_t SequenceLength(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return lead >= 0x20 || lead == '\t' || lead == '\n' || lead == '\r' ? 1 : 0;
  const size_t length = lead >= 0xC2 && lead <= 0xDF ? 2 : lead >= 0xE0 && lead <= 0xEF ? 3 : 4;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  uint32_t code = lead & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return 0;
    code = code << 6U | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  const bool is_shortest = length == 2 || (length == 3 ? code >= 0x800 : code >= 0x10000);
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  const bool is_allowed = code <= 0x10FFFF && code != 0xFFFE && code != 0xFFFF;
  return is_shortest && !is_surrogate && is_allowed ? length : 0;
}

}  // namespace

std::string EscapeXml(std::string_view text) {
  std::string allowed;
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    allowed += length == 0 ? kReplacement : text.substr(0, length);
    text.remove_prefix(std::max(length, size_t{1}));
  }
  return absl::StrReplaceAll(
      allowed, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string WithCode(std::string_view text) {
  std::string html;
  while (!text.empty()) {
    const size_t open = text.find('`');
    const size_t close = open == std::string_view::npos ? open : text.find('`', open + 1);
    if (close == std::string_view::npos) return html + EscapeXml(text);
    html += EscapeXml(text.substr(0, open));
    html += "<code>" + EscapeXml(text.substr(open + 1, close - open - 1)) + "</code>";
    text.remove_prefix(close + 1);
  }
  return html;
}

std::string Readable(double value, int digits) {
  if (std::isnan(value)) return "n/a";
  if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
  return (value < 0 ? "−" : "") + Significant(std::abs(value), digits);
}

size_t NumCharacters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

std::string Shortened(std::string_view text, size_t most) {
  if (NumCharacters(text) <= most) return std::string(text);
  size_t kept = 0;
  for (size_t characters = 0; kept < text.size(); ++kept) {
    if (!IsContinuation(text[kept]) && ++characters == most) break;
  }
  return std::string(text.substr(0, kept)) + "…";
}

}  // namespace gradsync::tools
