#include "tools/render/text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_replace.h"

namespace gradsync::tools {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80; }

}  // namespace

std::string EscapeXml(std::string_view text) {
  std::string allowed;
  for (const char c : text) {
    const bool is_control = static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
    allowed += is_control ? "\uFFFD" : std::string(1, c);
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
