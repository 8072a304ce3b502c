# What the scripts share.

say_msg() {
    printf '%s\n' "$1"
}

# The value of a setting.
setting() {
    sed -n "s/^$1=//p" settings.conf
}
