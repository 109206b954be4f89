#!/usr/bin/env bash
# A short tour on three servers that know each other: adds, gets and acknowledges
# jobs on one, shows one that nobody acknowledges coming back, one that outlives the
# server that took it, and what the nodes say of each other. Replies are checked;
# whatever happens, what was started is stopped.
source "$(dirname "$0")/lib.sh"
source ci/servers.sh

ci/needs.sh
build_module

# run COMMAND...: shows the command and its reply, which it leaves in $reply. The
# server at $port is asked.
run() {
  print_command "$@"
  reply=$(cli "$port" "$@")
  print_reply
}

# The same for a reply that is lines of text.
show() {
  print_command "$@"
  reply=$(redis-cli --raw -p "$port" "$@")
  print_reply
}

print_command() {
  local word line=
  for word; do
    case $word in
      *' '*) line+=" '$word'" ;;
      *) line+=" $word" ;;
    esac
  done
  printf '%s>%s\n' "$port" "$line"
}

print_reply() {
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

# wait_for REPLY COMMAND...: until the server at $port replies so.
wait_for() {
  local wanted=$1
  shift
  for _ in $(seq 1 400); do
    [ "$(cli "$port" "$@")" = "$wanted" ] && return 0
    sleep 0.05
  done
  fail "what comes after a while: $*"
}

for _ in 1 2 3; do
  start_server
done
port=${ports[0]}
echo "three servers with the module listen on 127.0.0.1: ${ports[*]}"

say "They do not know each other yet. One of them meets the other two."
for other in "${ports[@]:1}"; do
  run DISQUE MEET 127.0.0.1 "$other"
  expect "OK" 'OK'
done
join_servers

say "Now each knows all: id, address, flags, data epoch, silent ms, link, queued bytes."
port=${ports[2]}
show DISQUE NODES
[ "$(grep -c ' connected ' <<<"$reply")" = "${#ports[@]}" ] || fail "three connected nodes"

say "The list for clients: id, host, port and priority, 1 for a healthy node."
run DISQUE HELLO
[ "$(grep -c '4) "1"' <<<"$reply")" = "${#ports[@]}" ] || fail "three healthy nodes"

port=${ports[0]}

say "A producer adds a job; the reply is its id. By now all three servers have a copy."
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

say "Done: the worker acknowledges it. When all three know, it is gone."
run ACKJOB "$id"
expect "one job" '(integer) 1'
wait_for '(nil)' SHOW "$id"
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

say "A job is added at the third server, with a copy on each. That server dies."
port=${ports[2]}
run ADDJOB mail 'outlive me' 1000 REPLICATE 3 RETRY 1
expect_id
kill -KILL "${servers[2]}"
wait "${servers[2]}" 2>/dev/null || true

say "The rest see that its connections are closed."
port=${ports[0]}
wait_for '"2"' DISQUE INFO reachable_nodes
show DISQUE NODES
[ "$(grep -c ' connected ' <<<"$reply")" = 2 ] || fail "two connected nodes"
[ "$(grep -c ' disconnected ' <<<"$reply")" = 1 ] || fail "one disconnected node"

say "One of them, and only one, delivers the job in its place."
for _ in $(seq 1 400); do
  for port in "${ports[@]:0:2}"; do
    [ "$(cli "$port" QLEN mail)" = '(integer) 0' ] || break 2
  done
  sleep 0.05
done
run GETJOB FROM mail
expect "the job" "1) 1) \"mail\"
   2) \"$id\"
   3) \"outlive me\""
run ACKJOB "$id"
expect "one job" '(integer) 1'

say "The acknowledgement is kept for the dead server: should it come back, it is told."
run SHOW "$id"
grep -q '"acked"' <<<"$reply" || fail "an acknowledged job"

say "That was all. The servers are stopped."
