#!/bin/bash
#SBATCH --job-name=around --nodes=2 --output=around-%j.out

# No pool and no #DW line: the buffer is on this job's own nodes, as long as the command after -- runs.
seq 100 -1 1 >numbers-$SLURM_JOB_ID.txt

# Each task reads what was copied in and writes a file of its own; all of them are copied out at the end.
forebay with --on-allocation --capacity 64MiB \
    --in numbers-$SLURM_JOB_ID.txt:numbers.txt --out ends:ends-$SLURM_JOB_ID -- \
    srun bash -c 'cd "$DW_JOB_STRIPED" && mkdir -p ends &&
        grep "$SLURM_PROCID\$" numbers.txt | sort -n >ends/in-$SLURM_PROCID.txt'
