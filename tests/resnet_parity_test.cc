#include "tests/resnet_parity_suite.h"

namespace gradsync::model {
namespace {

// "NAME (SHAPE)\n" as in the fixture's metadata, but for the last end of line.
void AppendLine(std::string& lines, const std::string& name, const Shape& shape) {
  lines += (lines.empty() ? "" : "\n") + name + " " + ToString(shape);
}

TEST(ResNet50Test, NamesAndShapesAreTorchvisions) {
  const SafetensorsFile file = SafetensorsFile::Open(kFixture);
  const ResNet model(ResNet50Config(), CpuDevice(), DType::kF32, 0);
  std::string parameters, buffers;
  int64_t numel = 0;
  for (const Parameter* p : model.parameters()) {
    AppendLine(parameters, p->name(), p->value().shape());
    numel += p->numel();
  }
  for (const Buffer& buffer : model.buffers()) AppendLine(buffers, buffer.name, buffer.value.shape());
  EXPECT_EQ(model.parameters().size(), 161u);
  EXPECT_EQ(numel, 25'557'032);
  EXPECT_EQ(parameters, file.metadata().at("resnet50_parameters"));
  EXPECT_EQ(buffers, file.metadata().at("resnet50_buffers"));
}

INSTANTIATE_TEST_SUITE_P(
    Cpu, ResNetParityTest,
    testing::Values(
        ResNetParityCase{"f32_1_threads", DType::kF32, [] { return CpuDevice(1); }, 1e-5},
        ResNetParityCase{"f32_2_threads", DType::kF32, [] { return CpuDevice(2); }, 1e-5},
        ResNetParityCase{"f64_1_threads", DType::kF64, [] { return CpuDevice(1); }, 6e-8},
        ResNetParityCase{"bf16_1_threads", DType::kBF16, [] { return CpuDevice(1); }, kToleranceBF16},
        ResNetParityCase{"bf16_2_threads", DType::kBF16, [] { return CpuDevice(2); }, kToleranceBF16}),
    ResNetParityCaseName);

}  // namespace
}  // namespace gradsync::model
