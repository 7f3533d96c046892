// What ThreadSanitizer must not report: accesses by system libraries that were built without instrumentation,
// whose atomics it cannot see. Every line names its library; nothing of gradsync's own is ever listed here.

// NOLINTBEGIN(bugprone-reserved-identifier): the sanitizer's own name.
extern "C" const char* __tsan_default_suppressions();

const char* __tsan_default_suppressions() {
  // NOLINTEND(bugprone-reserved-identifier) gloo's locks must stay visible (called_from_lib would hide them,
  // but not their inline parts), so its false positive is named: a buffer's destructor waits for the atomic
  // count of a shared_ptr, inside the library.
  return "race:gloo::transport::tcp::UnboundBuffer\n"
         "called_from_lib:libdnnl.so\n";
}
