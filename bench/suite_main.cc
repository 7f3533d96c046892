#include <exception>
#include <iostream>

#include "bench/presets/run.h"
#include "comm/processes/stop_signals.h"
#include "model/error.h"

int main(int argc, char** argv) {
  gradsync::bench::SuiteEnd end;
  try {
    end = gradsync::bench::RunSuite(argc, argv);
  } catch (const gradsync::InvalidInput& error) {
    std::cerr << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "suite: " << error.what() << "\n";
    return 1;
  }
  if (end.signal.has_value()) gradsync::comm::EndBySignal(*end.signal);
  return end.status;
}
