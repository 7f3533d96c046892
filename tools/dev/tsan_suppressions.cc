// What ThreadSanitizer must not report: accesses by system libraries that were built without instrumentation,
// whose atomics it cannot see. Every line names its library; nothing of gradsync's own is ever listed here.

extern "C" const char* __tsan_default_suppressions();

const char* __tsan_default_suppressions() {
  return "called_from_lib:libgloo.so\n"
         "called_from_lib:libdnnl.so\n";
}
