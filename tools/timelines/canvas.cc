#include "tools/timelines/canvas.h"

namespace gradsync::tools {
namespace {

std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '\'') {
      escaped += "&#39;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string Class(std::string_view css_class) { return " class='" + std::string(css_class) + "'"; }

std::string Title(std::string_view tip) { return "<title>" + Escape(tip) + "</title>"; }

}  // namespace

void SvgCanvas::Box(double x, double y, double width, double height, std::string_view css_class,
                    std::string_view tip) {
  body_ += Format("<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f'", x, y, width, height) +
           Class(css_class) + (tip.empty() ? "/>\n" : ">" + Title(tip) + "</rect>\n");
}

void SvgCanvas::Line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  body_ +=
      Format("<line x1='%.2f' y1='%.2f' x2='%.2f' y2='%.2f'", x1, y1, x2, y2) + Class(css_class) + "/>\n";
}

void SvgCanvas::Path(std::string_view path, std::string_view css_class, std::string_view tip) {
  body_ += "<path d='" + std::string(path) + "'" + Class(css_class) +
           (tip.empty() ? "/>\n" : ">" + Title(tip) + "</path>\n");
}

void SvgCanvas::Text(double x, double y, std::string_view css_class, std::string_view text) {
  body_ += Format("<text x='%.2f' y='%.2f'", x, y) + Class(css_class) + ">" + Escape(text) + "</text>\n";
}

std::string SvgCanvas::Svg(double width, double height, std::string_view css_class,
                           std::string_view style_sheet, std::string_view label) const {
  return Format("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' width='%.0f' height='%.0f'",
                width, height, width, height) +
         " role='img' aria-label='" + Escape(label) + "'" + Class(css_class) + ">\n<style>\n" +
         std::string(style_sheet) + "</style>\n" + body_ + "</svg>\n";
}

double TextWidth(std::string_view text, double font_size) {
  return 0.62 * font_size * static_cast<double>(text.size());
}

}  // namespace gradsync::tools
