#!/bin/sh
# Says goodbye to whoever is named.
. ./lib.sh

say_msg "goodbye, ${1:-world}"
