#!/bin/bash
#SBATCH --job-name=drained --nodes=2 --output=drained-%j.out
#DW jobdw type=scratch access_mode=private pool=nvme capacity=128MiB drain=on-close
#DW stage_out type=directory source=$DW_JOB_PRIVATE/steps destination=%d/steps-%j

# Each node writes to a volume on its own flash; what is closed there is copied while the job goes on.
srun bash -c 'cd "$DW_JOB_PRIVATE/steps"
    for step in 1 2 3; do mkdir step$step; head -c 8M /dev/urandom >step$step/$(hostname); sleep 1; done'

# A step that is named whole can be restarted from: every node's files are on the parallel file system, verified.
forebay drain commit step3
forebay drain status
