#!/usr/bin/env bash
command -v "${PYTHON:=python3}" >/dev/null || exit 0
exec "$PYTHON" bench/peers/pytorch_test.py
