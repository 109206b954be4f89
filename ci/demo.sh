#!/usr/bin/env bash
# A short tour on a real server: adds, gets and acknowledges jobs, and shows one
# that nobody acknowledges coming back. Every reply is checked; whatever happens,
# what was started is stopped.
source "$(dirname "$0")/lib.sh"

ci/needs.sh
build_module
module=$(module_path)

directory=$(mktemp -d)
server=
stop() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$directory"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

cli() { redis-cli -p "$port" "$@"; }

# The server itself finds out whether a port is free.
start() {
  for port in $(seq 7711 7760); do
    # shellcheck disable=SC2086
    ${REDIS_SERVER:-redis-server} --bind 127.0.0.1 --port "$port" --dir "$directory" \
      --save '' --loadmodule "$module" >"$directory/log" 2>&1 &
    server=$!
    for _ in $(seq 1 200); do
      if ! kill -0 "$server" 2>/dev/null; then
        break
      fi
      if cli INFO server 2>/dev/null | grep -q "^process_id:$server"; then
        return 0
      fi
      sleep 0.05
    done
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
    if ! grep -q 'Address already in use' "$directory/log"; then
      echo "the server did not start:"
      cat "$directory/log"
      exit 1
    fi
  done
  echo "no free port between 7711 and 7760"
  exit 1
}

# do_it COMMAND...: shows the command and its reply, which it leaves in $reply.
do_it() {
  printf '> %s\n' "$*"
  reply=$(cli "$@")
  printf '%s\n' "$reply" | sed 's/^/  /'
}

expect() { # expect WHAT PATTERN: the whole reply must match
  if ! [[ $reply =~ ^($2)$ ]]; then
    echo "that is not $1"
    exit 1
  fi
}

say() { printf '\n# %s\n' "$*"; }

id='D-[0-9a-f]{8}-[A-Za-z0-9+/]{24}-[0-9a-f]{4}'
newline=$'\n'

start
echo "a server with the module listens on 127.0.0.1:$port"

say "A producer adds a job; the reply is its id."
do_it ADDJOB mail 'hello, world' 0
expect "a job id" "$id"
first=$reply

say "It waits in its queue."
do_it QLEN mail
expect "one job" 1

say "A worker takes it: queue, id and body."
do_it GETJOB FROM mail
expect "the job that was added" "mail${newline}${first//+/\\+}${newline}hello, world"

say "Done: the worker acknowledges it, and it is gone."
do_it ACKJOB "$first"
expect "one job" 1
do_it SHOW "$first"
expect "nothing" ""
do_it GETJOB NOHANG FROM mail
expect "nothing" ""

say "This one must be acknowledged within a second, or it is delivered again."
do_it ADDJOB mail 'do not lose me' 0 RETRY 1
expect "a job id" "$id"
second=$reply
do_it GETJOB FROM mail
expect "the job" "mail${newline}${second//+/\\+}${newline}do not lose me"

say "The worker crashes. Another one waits, and gets the same job again."
do_it GETJOB TIMEOUT 5000 WITHCOUNTERS FROM mail
expect "the job, delivered once more" \
  "mail${newline}${second//+/\\+}${newline}do not lose me${newline}nacks${newline}0${newline}additional-deliveries${newline}1"
do_it ACKJOB "$second"
expect "one job" 1

say "That was all. The server is stopped."
