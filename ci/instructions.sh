#!/usr/bin/env bash
# Instructions that the core needs for each command, counted by callgrind, against
# those in bench/instructions.txt. Fails where one has grown by more than 5 %: no other
# load on the machine changes such a count. --write keeps the new ones, after a change
# that is worth it, or for another compiler or libc.
source "$(dirname "$0")/lib.sh"

figures=bench/instructions.txt

if ! command -v valgrind >/dev/null; then
  echo "skipped: there is no valgrind here (apt-get install valgrind)"
  exit 0
fi

cargo build --release --locked --quiet --package disque-bench --bin instructions
binary=$(dirname "$(module_path)")/instructions
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$binary" >"$work/kinds"
while read -r commands kind; do
  valgrind --quiet --tool=callgrind --callgrind-out-file="$work/dump" \
    --toggle-collect='*counted*' "$binary" "$kind"
  total=$(awk '/^totals:/ { print $2 }' "$work/dump")
  echo "$((total / commands)) $kind"
done <"$work/kinds" >"$work/counted"

if [ "${1:-}" = --write ]; then
  cp "$work/counted" "$figures"
  cat "$figures"
  exit 0
fi

awk -v figures="$figures" '
  function name() { text = $0; sub(/^[0-9]+ /, "", text); return text }
  FILENAME == figures { before[name()] = $1; next }
  {
    kind = name()
    if (!(kind in before)) { print "no figure for " kind; failed = 1; next }
    change = 100 * ($1 / before[kind] - 1)
    verdict = change > 5 ? "TOO MANY" : change < -5 ? "fewer: keep with --write" : "ok"
    if (change > 5) failed = 1
    printf "%-22s %9d, was %9d: %+.1f %%  %s\n", kind, $1, before[kind], change, verdict
    delete before[kind]
  }
  END {
    for (kind in before) { print "not counted any more: " kind; failed = 1 }
    exit failed
  }' "$figures" "$work/counted"
