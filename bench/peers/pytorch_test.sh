#!/usr/bin/env bash
exec "${PYTHON:-python3}" bench/peers/pytorch_test.py
