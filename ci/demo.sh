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

cli() { redis-cli --no-raw -p "$port" "$@"; }

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

# run COMMAND...: shows the command and its reply, which it leaves in $reply.
run() {
  local word line=
  for word; do
    case $word in
      *' '*) line+=" '$word'" ;;
      *) line+=" $word" ;;
    esac
  done
  printf '>%s\n' "$line"
  reply=$(cli "$@")
  printf '%s\n' "$reply" | sed 's/^/  /'
}

fail() {
  echo "that is not $1"
  exit 1
}

# expect WHAT REPLY: the last reply must be exactly that.
expect() {
  [ "$reply" = "$2" ] || fail "$1"
}

# expect_id: the last reply must be a job id, which is left in $id.
expect_id() {
  [[ $reply =~ ^\"(D-[0-9a-f]{8}-[A-Za-z0-9+/]{24}-[0-9a-f]{4})\"$ ]] || fail "a job id"
  id=${BASH_REMATCH[1]}
}

say() { printf '\n# %s\n' "$*"; }

start
echo "a server with the module listens on 127.0.0.1:$port"

say "A producer adds a job; the reply is its id."
run ADDJOB mail 'hello, world' 0
expect_id

say "It waits in its queue."
run QLEN mail
expect "one job" '(integer) 1'

say "A worker takes it: queue, id and body."
run GETJOB FROM mail
expect "the job that was added" "1) 1) \"mail\"
   2) \"$id\"
   3) \"hello, world\""

say "Done: the worker acknowledges it, and it is gone."
run ACKJOB "$id"
expect "one job" '(integer) 1'
run SHOW "$id"
expect "nothing" '(nil)'
run GETJOB NOHANG FROM mail
expect "nothing" '(nil)'

say "This one must be acknowledged within a second, or it is delivered again."
run ADDJOB mail 'do not lose me' 0 RETRY 1
expect_id
run GETJOB FROM mail
expect "the job" "1) 1) \"mail\"
   2) \"$id\"
   3) \"do not lose me\""

say "The worker crashes. Another one waits, and gets the same job again."
run GETJOB TIMEOUT 5000 WITHCOUNTERS FROM mail
expect "the job, delivered once more" "1) 1) \"mail\"
   2) \"$id\"
   3) \"do not lose me\"
   4) \"nacks\"
   5) (integer) 0
   6) \"additional-deliveries\"
   7) (integer) 1"
run ACKJOB "$id"
expect "one job" '(integer) 1'

say "That was all. The server is stopped."
