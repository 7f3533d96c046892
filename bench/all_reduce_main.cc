
#include "bench/collectives/options.h"
#include "bench/collectives/run.h"

int main(int argc, char** argv) {
  namespace bench = gradsync::bench;
  bench::AllReduceOptions options;
  gradsync::FlagTable flags(
      "all_reduce",
      "Measures an all-reduce between ranks, by backend and size, and checks every sum.\n"
      "  ./bazelw run //bench:all_reduce -- --sizes=1MiB,100MiB --world_size=2 --out=DIR");
  options.AddTo(flags);
  return bench::RunAllReduceProgram(argc, argv, flags, options);
}
