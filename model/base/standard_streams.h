#pragma once

namespace gradsync {

// If the program was started with stdin, stdout or stderr closed, opens /dev/null (for reading only) in its
// place. Otherwise the next file or connection that the program opens would get the closed stream's
// descriptor, and the program would print into it.
void KeepStandardStreams();

// Flushes stdout and returns the status with which the program should exit. This is `status`, except if
// `status` is kDone (success) and something printed on stdout could not be written: then the function prints
// an error on stderr and returns kFailed.
int WithWrittenOutput(int status);

}  // namespace gradsync
