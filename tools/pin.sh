#!/bin/sh
# Writes constraints.txt from what .venv holds (after an upgrade that passed `make test`).
set -eu
cd "$(dirname "$0")/.."
{
    echo "# The versions that are tested: pip install -c constraints.txt -e '.[dev,validation,torch]'."
    echo "# Written by tools/pin.sh."
    .venv/bin/python -m pip freeze --exclude-editable | grep -v ' @ ' | sed 's/^\(torch==[0-9.]*\)+.*/\1/'
} > constraints.txt.new
mv constraints.txt.new constraints.txt
