#!/bin/bash
# Stands for ssh when mpiexec starts its daemons: [OPTION]... ADDRESS COMMAND... The nodes of the cluster are 10.77.0.11 and on.
while [[ $1 == -* ]]; do shift; done
node=n$((${1##*.} - 10))
shift
exec "$FOREBAY_ON" "$node" sh -c "$*"
