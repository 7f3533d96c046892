#include "tools/reports/winners_map.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tools/records/test_records.h"
#include "tools/reports/test_xml.h"

namespace gradsync::tools {
namespace {

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(WinnersMapTest, ShowsWhoWinsWhere) {
  const std::string path = FreshTestDir("winners") + "/map.svg";
  // The first name wins on fast links, nobody at few tokens.
  const auto winner = [](double gbit, double tokens) -> std::optional<size_t> {
    if (tokens < 10) return std::nullopt;
    return gbit > 4.47 ? 0 : 1;  // the middle of 0.05 to 400
  };
  WriteWinnersMap(path, {"core", "zero1", "naive"},
                  {{"tokens", 1, 100, winner, {{1, 10, 1}, {4, 10, std::nullopt}}}});
  const std::string svg = ReadTestFile(path);
  // 16 x 10 places, half of the rows undecided, and the key.
  EXPECT_EQ(Count(svg, "<rect class='marker c-1'"), 40u + 1);
  EXPECT_EQ(Count(svg, "<rect class='marker c-2'"), 40u + 1);
  EXPECT_EQ(Count(svg, "<rect class='cell open'"), 80u + 1);
  EXPECT_EQ(Count(svg, "class='interval total marker c-2'"), 1u);
  EXPECT_EQ(Count(svg, "class='interval total cell open'"), 1u + 1);
  EXPECT_NE(svg.find("4 Gbit/s, measured: undecided"), std::string::npos);
  EXPECT_NE(svg.find("measured; filled as its fastest"), std::string::npos);
  EXPECT_NE(svg.find(">zero1<"), std::string::npos);
  EXPECT_EQ(svg.find("naive"), std::string::npos);
  EXPECT_NE(svg.find("'Predicted fastest: core in 25 %, zero1 in 25 % of the places; undecided in 50 %'"),
            std::string::npos);
  EXPECT_NE(svg.find("undecided: intervals overlap"), std::string::npos);
}

// Fast links lie to the right, and many tokens above.
TEST(WinnersMapTest, PlacesLieWhereTheirAxesSay) {
  const std::string path = FreshTestDir("places") + "/map.svg";
  const auto winner = [](double gbit, double tokens) -> std::optional<size_t> {
    if (tokens < 10) return std::nullopt;
    return gbit > 4.47 ? 0 : 1;
  };
  WriteWinnersMap(path, {"core", "zero1"}, {{"tokens", 1, 100, winner, {}}});
  const std::vector<XmlElement> elements = ParseXml(ReadTestFile(path));
  size_t num_places = 0;
  const double middle_x = 210, middle_y = 138;  // where 4.47 Gbit/s and 10 tokens are
  for (const XmlElement& place : elements) {
    if (place.name != "rect" || place.tip.empty()) continue;
    ++num_places;
    const bool is_low = place.HasClass("open"), is_fast = place.HasClass("c-1");
    EXPECT_EQ(place.Number("y") > middle_y - 1, is_low) << place.tip;
    EXPECT_EQ(!is_low && place.Number("x") > middle_x - 1, is_fast) << place.tip;
  }
  EXPECT_EQ(num_places, 160u);
}

TEST(WinnersMapTest, NamesWhatWasFastestWhereItWasMeasuredAlone) {
  const std::string path = FreshTestDir("undecided") + "/map.svg";
  const auto nobody = [](double, double) -> std::optional<size_t> { return std::nullopt; };
  WriteWinnersMap(path, {"core", "zero1"}, {{"tokens", 1, 100, nobody, {{1, 10, 1}}}});
  const std::string svg = ReadTestFile(path);
  EXPECT_NE(svg.find("'Undecided in 100 %'"), std::string::npos);
  EXPECT_NE(svg.find(">zero1<"), std::string::npos);
  EXPECT_EQ(svg.find(">core<"), std::string::npos);
}

}  // namespace
}  // namespace gradsync::tools
