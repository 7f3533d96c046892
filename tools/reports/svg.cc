#include "tools/reports/svg.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "model/error.h"
#include "tools/render/text.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

// A hundredth of a pixel is finer than anyone sees.
std::string Coordinate(double value) {
  std::string digits = Fixed(value, 2);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits;
}

std::string Attribute(std::string_view name, double value) {
  return Join(" ", name, "='", Coordinate(value), "'");
}

std::string Class(std::string_view classes) { return Join(" class='", classes, "'"); }

std::string PointList(const Svg::Points& points) {
  std::string list = " points='";
  for (const auto& [x, y] : points) {
    if (list.back() != '\'') list += ' ';
    list += Coordinate(x) + "," + Coordinate(y);
  }
  return list + "'";
}

}  // namespace

double TextWidth(std::string_view text, double font_size) {
  constexpr double kCharacterWidth = 7.3;  // in kFontSize
  return kCharacterWidth * static_cast<double>(NumCharacters(text)) * (font_size / kFontSize);
}

Svg::Svg(double width, double height, std::string label)
    : width_(width), height_(height), label_(std::move(label)) {}

void Svg::Add(std::string_view tag, std::string_view attributes, std::string_view content,
              std::string_view tip) {
  const std::string title = tip.empty() ? "" : "<title>" + EscapeXml(tip) + "</title>";
  body_ += Join("<", tag, attributes);
  if (title.empty() && content.empty()) {
    body_ += "/>\n";
  } else {
    body_ += Join(">", title, EscapeXml(content), "</", tag, ">\n");
  }
}

void Svg::Rect(std::string_view classes, double x, double y, double width, double height,
               std::string_view tip) {
  Add("rect",
      Class(classes) + Attribute("x", x) + Attribute("y", y) + Attribute("width", std::max(width, 0.0)) +
          Attribute("height", std::max(height, 0.0)),
      "", tip);
}

void Svg::Line(std::string_view classes, double x1, double y1, double x2, double y2, std::string_view tip) {
  Add("line",
      Class(classes) + Attribute("x1", x1) + Attribute("y1", y1) + Attribute("x2", x2) + Attribute("y2", y2),
      "", tip);
}

void Svg::Polyline(std::string_view classes, const Points& points) {
  Add("polyline", Class(classes) + PointList(points), "", "");
}

void Svg::Polygon(std::string_view classes, const Points& points, std::string_view tip) {
  Add("polygon", Class(classes) + PointList(points), "", tip);
}

void Svg::Marker(std::string_view classes, size_t shape, double x, double y, std::string_view tip) {
  constexpr double kRadius = 3.4;
  switch (shape % 4) {
    case 0:
      Add("circle", Class(classes) + Attribute("cx", x) + Attribute("cy", y) + Attribute("r", kRadius), "",
          tip);
      break;
    case 1:
      Rect(classes, x - 3, y - 3, 6, 6, tip);
      break;
    case 2:
      Polygon(classes, {{x, y - 4}, {x + 4, y + 3}, {x - 4, y + 3}}, tip);
      break;
    default:
      Polygon(classes, {{x, y - 4.4}, {x + 4.4, y}, {x, y + 4.4}, {x - 4.4, y}}, tip);
  }
}

void Svg::Text(std::string_view classes, double x, double y, std::string_view anchor, std::string_view text,
               std::string_view tip) {
  Add("text", Class(classes) + Attribute("x", x) + Attribute("y", y) + Join(" text-anchor='", anchor, "'"),
      text, tip);
}

double Svg::Paragraph(std::string_view classes, double x, double y, double width, double font_size,
                      std::string_view text) {
  std::string line;
  const auto end_line = [&] {
    Text(classes, x, y, "start", line);
    y += 1.35 * font_size;
  };
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(std::string(text), ' '))) {
    if (!line.empty() && TextWidth(Join(line, " ", word), font_size) > width) {
      end_line();
      line.clear();
    }
    line += Join(line.empty() ? "" : " ", word);
  }
  end_line();
  return y;
}

void Svg::Place(double x, double y, const Svg& picture) {
  body_ +=
      Join("<g transform='translate(", Coordinate(x), " ", Coordinate(y), ")'>\n", picture.body(), "</g>\n");
}

std::string Svg::Root(std::string_view classes, std::string_view attributes, std::string_view style) const {
  return Join("<svg", Class(classes), " role='img' viewBox='0 0 ", Coordinate(width_), " ",
              Coordinate(height_), "' aria-label='", EscapeXml(label_), "'", attributes, ">\n", style, body_,
              "</svg>\n");
}

std::string Svg::Finish() const { return Root("chart", "", ""); }

std::string Svg::Document(std::string_view classes, std::string_view style_sheet, double scale) const {
  const std::string size = Attribute("width", scale * width_) + Attribute("height", scale * height_);
  return Root(classes, " xmlns='http://www.w3.org/2000/svg'" + size,
              Join("<style>\n", style_sheet, "</style>\n"));
}

KeyEntry BoxKey(std::string_view classes, std::string text) {
  KeyEntry entry{Svg(kMarkWidth, kMarkHeight, ""), std::move(text)};
  entry.mark.Rect(classes, 1, 2, kMarkWidth - 2, kMarkHeight - 4);
  return entry;
}

}  // namespace gradsync::tools
