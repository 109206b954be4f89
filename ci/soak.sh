#!/usr/bin/env bash
# Keeps three real servers under steady load and looks at whether anything grows:
# memory, files, threads, jobs. Ends with the trend of each figure.
#   ci/soak.sh                an hour, after some minutes to warm up
#   SECONDS=600 ci/soak.sh    ten minutes
# In this script SECONDS would count: it is read before anything else.
wanted=$(printenv SECONDS) || wanted=
source "$(dirname "$0")/lib.sh"

build_module
DISQUE_MODULE=${DISQUE_MODULE:-$(module_path)} exec env SECONDS="${wanted:-3600}" \
  "$(dirname "$(module_path)")/disque-soak"
