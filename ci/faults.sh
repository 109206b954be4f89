#!/usr/bin/env bash
# Does everything to real servers that can befall them, under load, and judges what
# their clients saw. Ends with a summary, or with where the history and the servers'
# files are.
#   ci/faults.sh                      a minute, from a seed that is printed
#   SECONDS=600 SEED=7 ci/faults.sh   ten minutes, the first run from this seed
#   ONLY=FlipBit,Leave ci/faults.sh   nothing but these
# In this script SECONDS would count: it is read before anything else.
wanted=$(printenv SECONDS) || wanted=
source "$(dirname "$0")/lib.sh"

build_module
DISQUE_MODULE=${DISQUE_MODULE:-$(module_path)} exec env SECONDS="${wanted:-60}" \
  "$(dirname "$(module_path)")/disque-faults"
