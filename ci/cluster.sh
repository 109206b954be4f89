#!/usr/bin/env bash
# Three servers on 127.0.0.1 that know each other, until Ctrl-C. PORT=7711 is the
# first port that is tried. Their data, if any, are gone when they stop.
source "$(dirname "$0")/lib.sh"
source ci/servers.sh

ci/needs.sh --build
build_module

for _ in 1 2 3; do
  start_server
done
join_servers

echo
for port in "${ports[@]}"; do
  echo "a node listens on 127.0.0.1:$port, log: $directory/$port/log"
done
cat <<END

Talk to them, for example:
  redis-cli --raw -p ${ports[0]} DISQUE NODES
  redis-cli -p ${ports[0]} ADDJOB mail 'hello, world' 0
  redis-cli -p ${ports[0]} GETJOB FROM mail
  redis-cli -p ${ports[1]} DISQUE HELLO
  kill ${servers[2]}    # the one on ${ports[2]}; the others notice

Ctrl-C stops all of them.
END
# A server that is killed ends nothing here: the others go on.
for server in "${servers[@]}"; do
  wait "$server" || true
done
