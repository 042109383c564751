#!/bin/bash
#SBATCH --job-name=hello --nodes=2 --output=hello-%j.out
#DW jobdw type=scratch access_mode=striped capacity=64MiB
#DW stage_out type=file source=$DW_JOB_STRIPED/hosts.txt destination=%d/hosts-%j.txt

# Every node appends its name to one file in the buffer; Slurm has Forebay copy it back when the job has ended.
srun bash -c 'hostname >> "$DW_JOB_STRIPED/hosts.txt"'
echo "the buffer was at $DW_JOB_STRIPED"
