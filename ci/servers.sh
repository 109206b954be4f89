# Servers with the module that a script starts on free ports of 127.0.0.1; sourced
# after lib.sh. Whatever happens to the script, they are stopped and their
# directory is removed.

directory=$(mktemp -d)
servers=() # process ids
ports=()
next_port=${PORT:-7711}
last_port=$((next_port + 49))

stop_servers() {
  local server
  for server in "${servers[@]}"; do
    kill "$server" 2>/dev/null || true
  done
  for server in "${servers[@]}"; do
    wait "$server" 2>/dev/null || true
  done
  rm -rf "$directory"
}
trap stop_servers EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# cli PORT COMMAND...: as redis-cli shows replies to people.
cli() {
  local port=$1
  shift
  redis-cli --no-raw -p "$port" "$@"
}

# A server on the next free port; the server itself finds out whether one is free.
start_server() {
  local port server
  while [ "$next_port" -le "$last_port" ]; do
    port=$next_port
    next_port=$((next_port + 1))
    mkdir "$directory/$port"
    # shellcheck disable=SC2086
    ${REDIS_SERVER:-redis-server} --bind 127.0.0.1 --port "$port" --dir "$directory/$port" \
      --save '' --loadmodule "$(module_path)" >"$directory/$port/log" 2>&1 &
    server=$!
    if answers "$port" "$server"; then
      servers+=("$server")
      ports+=("$port")
      return 0
    fi
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    if ! grep -q 'Address already in use' "$directory/$port/log"; then
      echo "the server did not start:"
      cat "$directory/$port/log"
      exit 1
    fi
  done
  echo "no free port up to $last_port"
  exit 1
}

# answers PORT PID: the process is the one that answers there.
answers() {
  for _ in $(seq 1 200); do
    kill -0 "$2" 2>/dev/null || return 1
    if cli "$1" INFO server 2>/dev/null | grep -q "process_id:$2[^0-9]"; then
      return 0
    fi
    sleep 0.05
  done
  return 1
}

# The first server meets the others, and each comes to know all.
join_servers() {
  local port
  for port in "${ports[@]:1}"; do
    cli "${ports[0]}" DISQUE MEET 127.0.0.1 "$port" >/dev/null
  done
  for port in "${ports[@]}"; do
    wait_connected "$port"
  done
}

# wait_connected PORT: until the node there is connected to all, and they to it.
wait_connected() {
  for _ in $(seq 1 200); do
    if [ "$(redis-cli -p "$1" DISQUE INFO reachable_nodes)" = "${#ports[@]}" ]; then
      return 0
    fi
    sleep 0.05
  done
  echo "the nodes did not connect:"
  redis-cli -p "$1" DISQUE NODES
  exit 1
}
