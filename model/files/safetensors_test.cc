#include "model/files/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "model/base/test_errors.h"

namespace gradsync::model {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kNone[] = "no error";

class SafetensorsTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        testing::TempDir() + "/safetensors_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    path_ = directory_ + "/file.safetensors";
  }

  void WriteRaw(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string ReadRaw() {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::string Length(uint64_t value) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &value, 8);
    return bytes;
  }
  void WriteHeader(const std::string& header, size_t data_bytes) {
    WriteRaw(Length(header.size()) + header + std::string(data_bytes, '\1'));
  }

  // What opening the file complains about. Every complaint is one line and names the file.
  std::string OpenError() {
    std::string message = ErrorOf([&] { SafetensorsFile::Open(path_); });
    if (message == kNone) return message;
    EXPECT_THAT(message, AllOf(HasSubstr(path_ + ": "), Not(HasSubstr("\n"))));
    EXPECT_LT(message.size(), path_.size() + 400);
    return message;
  }
  std::string HeaderError(const std::string& header, size_t data_bytes = 8) {
    WriteHeader(header, data_bytes);
    return OpenError();
  }

  template <class T>
  Tensor Of(Shape shape, const std::vector<T>& values) {
    return Tensor::From<T>(device_, std::move(shape), values);
  }

  DevicePtr device_ = CpuDevice();
  std::string directory_;
  std::string path_;
};

constexpr char kGood[] = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

TEST_F(SafetensorsTest, RoundTripOfEveryDType) {
  const std::vector<std::pair<std::string, Tensor>> tensors{
      {"f32", Of<float>({2, 3}, {1.5f, -2, 3, 4, 5, 6})},
      {"f64", Of<double>({1}, {1e-300})},
      {"bf16", Of<BF16>({2}, {BF16(1.0f), BF16(-3.0f)})},
      {"z \"quoted\" name \xc3\xa4", Of<int32_t>({}, {-7})},
      {"i64", Of<int64_t>({2, 1, 1}, {int64_t{1} << 40, -1})},
      {"u8", Of<uint8_t>({3}, {0, 128, 255})},
      {"empty", Of<float>({0, 5}, {})}};
  WriteSafetensors(path_, tensors, {{"made by", "a test"}});
  const SafetensorsFile file = SafetensorsFile::Open(path_);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"made by", "a test"}}));
  ASSERT_EQ(file.entries().size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    EXPECT_EQ(file.entries()[i].name, name);
    const Tensor loaded = file.Load(name, device_);
    EXPECT_EQ(loaded.shape(), tensor.shape()) << name;
    ASSERT_EQ(loaded.dtype(), tensor.dtype()) << name;
    EXPECT_EQ(std::memcmp(loaded.raw_data(), tensor.raw_data(), tensor.nbytes()), 0) << name;
  }
}

TEST_F(SafetensorsTest, ReadsWhatOthersWrite) {
  // Data in another order than the header, padding after the header, no metadata.
  const std::string header =
      R"({"b":{"shape":[1],"dtype":"I32","data_offsets":[8,12]},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}   )";
  const float a[] = {1, 2};
  const int32_t b = 5;
  std::string data(12, '\0');
  std::memcpy(data.data(), a, 8);
  std::memcpy(data.data() + 8, &b, 4);
  WriteRaw(Length(header.size()) + header + data);
  const SafetensorsFile file = SafetensorsFile::Open(path_);
  ASSERT_EQ(file.entries().size(), 2u);
  EXPECT_EQ(file.entries()[0].name, "a");
  EXPECT_EQ(file.Load("a", device_).ToVector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(file.Load("b", device_).ToVector<int32_t>(), (std::vector<int32_t>{5}));
  ASSERT_EQ(HeaderError("{}", 0), kNone);
}

TEST_F(SafetensorsTest, AlignsData) {
  WriteSafetensors(path_, std::vector<std::pair<std::string, Tensor>>{{"abc", Of<double>({1}, {1})}});
  EXPECT_EQ(SafetensorsFile::Open(path_).entries()[0].offset_bytes % 8, 0u);
}

TEST_F(SafetensorsTest, NamesTheTensorThatIsMissingOrDifferent) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (int i = 0; i < 5; ++i) tensors.emplace_back("t" + std::to_string(i), Of<float>({1}, {1}));
  WriteSafetensors(path_, tensors);
  const SafetensorsFile file = SafetensorsFile::Open(path_);
  EXPECT_EQ(file.Find("x"), nullptr);
  const auto error = [&](const char* name, const Tensor& target) {
    return ErrorOf([&] { file.LoadInto(name, target); });
  };
  EXPECT_EQ(error("x", Of<float>({1}, {0})), path_ + ": no tensor 'x' among its 5");
  EXPECT_EQ(error("t1", Of<float>({1, 1}, {0})), path_ + ": tensor 't1' is (1) f32, expected (1, 1) f32");
  EXPECT_EQ(error("t1", Of<int32_t>({1}, {0})), path_ + ": tensor 't1' is (1) f32, expected (1) i32");
}

TEST_F(SafetensorsTest, RefusesFilesThatCannotBeOpened) {
  EXPECT_THAT(OpenError(), HasSubstr("cannot open: No such file or directory"));
  std::filesystem::create_directory(path_);
  EXPECT_THAT(OpenError(), HasSubstr("not a regular file"));
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(OpenError(), HasSubstr("not a regular file"));
}

TEST_F(SafetensorsTest, RefusesBadLengths) {
  WriteRaw("");
  EXPECT_THAT(OpenError(), HasSubstr("0 bytes are too short"));
  WriteRaw("1234567");
  EXPECT_THAT(OpenError(), HasSubstr("7 bytes are too short"));
  WriteRaw("any text file, whose first bytes are no length");
  EXPECT_THAT(OpenError(), HasSubstr("not a safetensors file"));
  WriteRaw(Length(1000) + "{}");
  EXPECT_THAT(OpenError(), HasSubstr("header length is 1000, but only 2 bytes follow"));
}

TEST_F(SafetensorsTest, EveryTruncationIsNoticed) {
  WriteHeader(kGood, 8);
  ASSERT_EQ(OpenError(), kNone);
  const std::string whole = ReadRaw();
  for (size_t length = 0; length < whole.size(); ++length) {
    WriteRaw(whole.substr(0, length));
    EXPECT_NE(OpenError(), kNone) << length << " bytes of " << whole.size();
  }
  WriteRaw(whole + "x");
  EXPECT_THAT(OpenError(), HasSubstr("1 bytes at the end belong to no tensor"));
}

TEST_F(SafetensorsTest, RefusesBadHeaders) {
  EXPECT_THAT(HeaderError(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(HeaderError(R"({"a":)"), HasSubstr("not valid JSON at its byte"));
  EXPECT_THAT(HeaderError("{\"\xff\":1}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(HeaderError(R"({"a":1e999})"), HasSubstr("a number that is out of range"));
  EXPECT_THAT(HeaderError("[1]"), HasSubstr("header is [1], expected an object"));
  EXPECT_THAT(HeaderError(std::string(100'000, '[')), HasSubstr("nested too deeply"));
  EXPECT_THAT(HeaderError(R"({"a":[]})"), HasSubstr("tensor \"a\" is [], expected dtype"));
  EXPECT_THAT(HeaderError(R"({"__metadata__":3})"),
              HasSubstr("__metadata__ is 3, expected an object of strings"));
  EXPECT_THAT(HeaderError(R"({"__metadata__":{"k":3}})"), HasSubstr("__metadata__ is {\"k\":3}"));
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_THAT(HeaderError("{" + a + "," + a + "}"), HasSubstr("has \"a\" twice"));
  EXPECT_THAT(HeaderError(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
              HasSubstr("has \"dtype\" twice"));
}

TEST_F(SafetensorsTest, RefusesBadEntries) {
  const auto error = [&](const std::string& fields) { return HeaderError("{\"a\":{" + fields + "}}"); };
  const auto expected = HasSubstr(
      "expected dtype F32, F64, BF16, I32, I64 or U8, shape, a list of sizes, and data_offsets, [begin, "
      "end]");
  EXPECT_THAT(error(R"("shape":[2],"data_offsets":[0,8])"),
              AllOf(HasSubstr("tensor \"a\" is {\"data_offsets\":[0,8],\"shape\":[2]}, "), expected));
  EXPECT_THAT(error(R"("dtype":"F32","data_offsets":[0,8])"), expected);
  EXPECT_THAT(error(R"("dtype":"F32","shape":[2])"), expected);
  EXPECT_THAT(error(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1)"), expected);
  for (const char* dtype : {"\"F8_E4M3\"", "\"f32\"", "5", "null"}) {
    EXPECT_THAT(error(std::string("\"dtype\":") + dtype + R"(,"shape":[2],"data_offsets":[0,8])"), expected);
  }
  for (const char* shape : {"2", "[-2]", "[2.0]", "[\"2\"]", "[18446744073709551615]"}) {
    EXPECT_THAT(error(std::string(R"("dtype":"F32","data_offsets":[0,8],"shape":)") + shape), expected);
  }
  for (const char* offsets : {"8", "[0]", "[0,8,9]", "[-8,0]", "[0.0,8]"}) {
    EXPECT_THAT(error(std::string(R"("dtype":"F32","shape":[2],"data_offsets":)") + offsets), expected);
  }
  EXPECT_THAT(error(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), HasSubstr("truncated or damaged"));
  EXPECT_THAT(
      error(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"),
      HasSubstr(
          "[0,16],\"dtype\":\"F32\",\"shape\":[4]}, but the file has 8 bytes of data: it is truncated"));
  EXPECT_THAT(error(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
              HasSubstr("\"shape\":[3]}, which takes 12 bytes of data"));
  EXPECT_THAT(error(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8])"),
              HasSubstr("takes more than there are numbers"));
}

TEST_F(SafetensorsTest, RefusesOverlapsAndGaps) {
  const auto header = [](int a_begin, int a_end, int b_begin, int b_end) {
    const auto tensor = [](const char* name, int begin, int end) {
      return Join("\"", name, R"(":{"dtype":"U8","shape":[)", end - begin, R"(],"data_offsets":[)", begin,
                  ",", end, "]}");
    };
    return "{" + tensor("a", a_begin, a_end) + "," + tensor("b", b_begin, b_end) + "}";
  };
  ASSERT_EQ(HeaderError(header(0, 4, 4, 8)), kNone);
  EXPECT_THAT(HeaderError(header(0, 4, 3, 8)), HasSubstr("the data of tensor \"b\" begins at 3, expected 4"));
  EXPECT_THAT(HeaderError(header(0, 8, 0, 8)), HasSubstr("begins at 0, expected 8"));
  EXPECT_THAT(HeaderError(header(0, 3, 4, 8)), HasSubstr("tensor \"b\" begins at 4, expected 3"));
  EXPECT_THAT(HeaderError(header(1, 4, 4, 8)), HasSubstr("tensor \"a\" begins at 1, expected 0"));
  EXPECT_THAT(HeaderError(header(0, 4, 4, 7)), HasSubstr("1 bytes at the end"));
}

TEST_F(SafetensorsTest, FileThatShrinksWhileOpen) {
  WriteHeader(kGood, 8);
  const SafetensorsFile file = SafetensorsFile::Open(path_);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 4);
  EXPECT_THROW(file.Load("a", device_), std::runtime_error);
}

TEST_F(SafetensorsTest, WritingReplacesTheFileAsAWholeOrNotAtAll) {
  const std::vector<std::pair<std::string, Tensor>> old{{"old", Of<float>({1}, {1})}};
  const std::vector<std::pair<std::string, Tensor>> twice{{"x", old[0].second}, {"x", old[0].second}};
  const std::vector<std::pair<std::string, Tensor>> not_utf8{{"\xff", old[0].second}};
  WriteSafetensors(path_, old);
  EXPECT_THROW(WriteSafetensors(path_, twice), InvalidInput);
  EXPECT_THROW(WriteSafetensors(path_, not_utf8), InvalidInput);
  EXPECT_NE(SafetensorsFile::Open(path_).Find("old"), nullptr);
  WriteSafetensors(path_, std::vector<std::pair<std::string, Tensor>>{{"new", Of<float>({1}, {1})}});
  EXPECT_EQ(SafetensorsFile::Open(path_).Find("old"), nullptr);
  EXPECT_NE(SafetensorsFile::Open(path_).Find("new"), nullptr);
  EXPECT_THROW(WriteSafetensors(directory_ + "/absent/file", old), InvalidInput);

  // The last step, the renaming, fails: the temporary file goes too.
  const std::string occupied = directory_ + "/occupied";
  std::filesystem::create_directories(occupied + "/x");
  EXPECT_THROW(WriteSafetensors(occupied, old), std::runtime_error);
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(directory_))
    left.push_back(entry.path().filename());
  EXPECT_THAT(left, testing::UnorderedElementsAre("file.safetensors", "occupied"));
}

}  // namespace
}  // namespace gradsync::model
