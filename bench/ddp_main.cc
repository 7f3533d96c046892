#include "bench/training/programs/job.h"

int main(int argc, char** argv) {
  namespace bench = gradsync::bench;
  bench::TrainingOptions options;
  gradsync::FlagTable flags(
      "ddp",
      "Trains a model data-parallel on several ranks, and measures what each way of averaging the\n"
      "gradients costs. All variants take turns in one run.\n"
      "  ./bazelw run //bench:ddp -- --model=small --batch_size=2 --seq_len=128 --out=DIR\n"
      "  ./bazelw run //bench:ddp -- "
      "--variants=none,core@gloo,core@shm,bucketed_async:bucket_bytes=12Mi@shm");
  options.AddTo(flags);
  return bench::RunTrainingProgram(argc, argv, flags, options);
}
