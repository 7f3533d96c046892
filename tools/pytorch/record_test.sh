#!/usr/bin/env bash
exec "${PYTHON:-python3}" tools/pytorch/record_test.py
