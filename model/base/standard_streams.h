#pragma once

namespace gradsync {

// If the program was started with stdin, stdout or stderr closed, opens /dev/null (for reading only) in place
// of each closed stream. Without KeepStandardStreams, a file or connection that the program opens could get
// the descriptor of stdout or stderr, and receive printed text.
void KeepStandardStreams();

// Flushes stdout and returns the status with which the program should exit. The returned status is `status`,
// with one exception: if `status` is kDone (success) and something printed on stdout could not be written,
// the function prints an error on stderr and returns kFailed.
int WithWrittenOutput(int status);

}  // namespace gradsync
