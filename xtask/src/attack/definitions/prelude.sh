# Functions of every script. The machine has the repository `shop` with an own actor `local/worker`, which
# writes the file `made`, and an own action `local/job` that it does.
agents() { timeout 50 "$AGENTS" "$@"; }
ask() { agents "$@" --format json; }
plan_id() { sed -n 's/.*"plan_id": "\([0-9A-Z]*\)".*/\1/p' | head -1; }
commits() { git -C "$ROOT/shop" rev-list --count HEAD; }
through() { echo "THROUGH $*"; }
lost() { echo "LOST $*"; }
stuck() { echo "STUCK $*"; }
works() { echo CONTROL; }
# Ends in time or is stuck.
ends() { agents "$@" > "$ROOT/out" 2>&1; [ $? -ne 124 ] || stuck "$*"; }
action() { # name, more lines
  mkdir -p "$ROOT/shop/.agents/actions"
  printf 'name: %s\ndescription: Do it\nstrategy_actor: builtin/direct\nexecution_actor: local/worker\ndefinition_of_done: done\n%s\n' "$1" "$2" > "$ROOT/shop/.agents/actions/$(basename "$1").yaml"
}
# Takes the file that the own action made out again, so that another plan can make it.
without() { git -C "$ROOT/shop" rm -q "$1"; git -C "$ROOT/shop" commit -qm without; }
unmake() { without made; }
commit() { git -C "$ROOT/shop" add -A; git -C "$ROOT/shop" commit -qm "$1"; }
# Uses an action of the repository, with consent where the program asks for it.
use() { ask plan use "$@" --trust 2>/dev/null > "$ROOT/used" || ask plan use "$@" > "$ROOT/used" 2>/dev/null; plan_id < "$ROOT/used"; }
# Defines the user's own actor and action with the steps given.
own() { # name, steps, more lines of the action
  printf 'name: local/%s\ntype: tool\ndescription: Works\nsteps:\n%s\n' "$1" "$2" > "$ROOT/home/$1.yaml"
  printf 'name: local/%s\ndescription: Do it\nstrategy_actor: builtin/direct\nexecution_actor: local/%s\ndefinition_of_done: done\n%s\n' "$1" "$1" "$3" > "$ROOT/home/$1-action.yaml"
  agents actor add --config "$ROOT/home/$1.yaml" --update > "$ROOT/out" 2>&1 && agents action create --config "$ROOT/home/$1-action.yaml" --update > "$ROOT/out" 2>&1
}
# The plan of an own action, applied; prints nothing.
life() { p=$(ask plan use "$@" --automation-profile trusted 2>/dev/null | plan_id); [ -n "$p" ] && agents plan execute "$p" > "$ROOT/out" 2>&1 && agents plan apply "$p" --yes > "$ROOT/out" 2>&1; }
cd "$ROOT/home"
