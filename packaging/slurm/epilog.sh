#!/bin/sh
# Epilog of slurm.conf: gives the job's private volume back. Does not wait: the node service drains what is owed, then
# discards it. `forebay local list` shows what is kept and why.
[ -S "${FOREBAY_NODE_SOCKET:-/var/lib/forebay/node/node.sock}" ] || exit 0
/usr/bin/forebay local release "$SLURM_JOB_ID" 2>&1 | logger -t forebay-epilog
exit 0
