#include "model/model.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/base/test_errors.h"
#include "model/files/safetensors.h"

namespace gradsync::model {
namespace {

class ModelFileTest : public testing::Test {
 protected:
  ModelFileTest() {
    for (const char* name : {"a", "b", "c"}) {
      const std::vector<float> values{1, 2, static_cast<float>(name[0])};
      owned_.push_back(std::make_unique<Parameter>(name, Tensor::From<float>(device_, {3}, values)));
      params_.push_back(owned_.back().get());
    }
  }

  Tensor Zeros(Shape shape, DType dtype = DType::kF32) {
    return Tensor::Zeros(device_, std::move(shape), dtype);
  }

  // Writes a file of these tensors, and says why it cannot be loaded.
  std::string LoadError(const std::vector<std::pair<std::string, Tensor>>& tensors) {
    WriteSafetensors(path_, tensors);
    return ErrorOf([&] { LoadParameters(params_, path_); });
  }

  const std::string path_ = testing::TempDir() + "/model_test.safetensors";
  DevicePtr device_ = CpuDevice();
  std::vector<std::unique_ptr<Parameter>> owned_;
  std::vector<Parameter*> params_;
};

TEST_F(ModelFileTest, RoundTrip) {
  SaveParameters(params_, path_);
  for (Parameter* p : params_) p->MutableValue().Zero();
  LoadParameters(params_, path_);
  for (Parameter* p : params_) {
    EXPECT_EQ(p->value().ToVector<float>(), (std::vector<float>{1, 2, static_cast<float>(p->name()[0])}));
  }
}

TEST_F(ModelFileTest, NamesWhatDoesNotMatchAndChangesNothing) {
  EXPECT_EQ(LoadError({{"a", Zeros({3})}}), path_ + ": there is no tensor 'b' (1 others are there)");
  EXPECT_EQ(LoadError({{"a", Zeros({3})}, {"b", Zeros({3})}, {"c", Zeros({1, 3})}}),
            path_ + ": tensor 'c' is (1, 3) f32, the model's is (3) f32");
  EXPECT_EQ(LoadError({{"a", Zeros({3})}, {"b", Zeros({3}, DType::kF64)}, {"c", Zeros({3})}}),
            path_ + ": tensor 'b' is (3) f64, the model's is (3) f32");
  EXPECT_EQ(LoadError({{"a", Zeros({3})}, {"b", Zeros({3})}, {"c", Zeros({3})}, {"d", Zeros({3})}}),
            path_ + ": tensor 'd' is neither a parameter nor a buffer of the model");
  for (Parameter* p : params_) EXPECT_EQ(p->value().ToVector<float>()[1], 2) << p->name();
}

TEST_F(ModelFileTest, BuffersAreLoadedWhereTheFileHasThem) {
  const std::vector<Buffer> buffers = {{"mean", Zeros({2})}, {"batches", Zeros({}, DType::kI64)}};
  const std::vector<Buffer> saved = {{"mean", Tensor::From<float>(device_, {2}, std::vector<float>{3, 4})}};
  SaveParameters(params_, path_, saved);
  LoadParameters(params_, path_, buffers);
  EXPECT_EQ(buffers[0].value.ToVector<float>(), (std::vector<float>{3, 4}));
  EXPECT_EQ(buffers[1].value.ToVector<int64_t>(), std::vector<int64_t>{0});
}

TEST_F(ModelFileTest, CopiesInBF16FollowWhatIsLoaded) {
  Parameter p("p", Zeros({1}), Parameter::Copy::kBF16);
  const std::vector<Parameter*> list{&p};
  EXPECT_EQ(static_cast<float>(p.ForwardValue().ToVector<BF16>()[0]), 0);
  const std::vector<float> three{3};
  SaveParameters({}, path_, std::vector<Buffer>{{"p", Tensor::From<float>(device_, {1}, three)}});
  LoadParameters(list, path_);
  EXPECT_EQ(static_cast<float>(p.ForwardValue().ToVector<BF16>()[0]), 3);
}

TEST_F(ModelFileTest, BufferOfAnotherShapeChangesNothing) {
  const std::vector<Buffer> buffers = {{"mean", Zeros({2})}};
  const std::vector<Buffer> saved = {{"mean", Zeros({3})}};
  SaveParameters(params_, path_, saved);
  for (Parameter* p : params_) p->MutableValue().Zero();
  EXPECT_THROW(LoadParameters(params_, path_, buffers), InvalidInput);
  for (Parameter* p : params_) EXPECT_EQ(p->value().ToVector<float>()[1], 0) << p->name();
}

}  // namespace
}  // namespace gradsync::model
