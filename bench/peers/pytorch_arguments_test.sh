#!/usr/bin/env bash
exec python3 bench/peers/pytorch_arguments_test.py  # Bazel needs a python3 itself
