#!/bin/sh
# Greets whoever is named.
. ./lib.sh

name="${1:-world}"
text="$(setting greeting), $name"

# One line, on standard output.
say_msg "$text"
