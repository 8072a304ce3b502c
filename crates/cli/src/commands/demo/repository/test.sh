#!/bin/sh
# Ends at the first answer that is not the expected one.
expect() {
    wanted="$1"
    shift
    got="$("$@")"
    if [ "$got" != "$wanted" ]; then
        echo "$*: expected '$wanted', got '$got'"
        exit 1
    fi
}

expect "hello, world" sh greet.sh
expect "hello, ada" sh greet.sh ada
expect "goodbye, ada" sh farewell.sh ada
echo "all tests passed"
