#!/usr/bin/env bash
# run_test.sh FILE: with Debian's Python, which bazelw installs, unless PYTHON names another.
exec "${PYTHON:-/usr/bin/python3}" "$1"
