#include "bench/training/options.h"
#include "bench/training/plan.h"

int main(int argc, char** argv) {
  namespace bench = gradsync::bench;
  bench::TrainingOptions options;
  bench::FlagTable flags(
      "plan",
      "Writes what variants would send in a world of any size, and when gradients are ready, as\n"
      "records for //tools:what_if. Starts no ranks.\n"
      "  ./bazelw run //bench:plan -- --model=small --world_size=64 --variants=none,core@gloo --out=DIR");
  options.AddTo(flags);
  return bench::RunPlanProgram(argc, argv, flags, options);
}
