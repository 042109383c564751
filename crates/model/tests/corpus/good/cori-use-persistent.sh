#!/bin/bash
#SBATCH -p regular -N 16 -t 120 -J assemble
#DW persistentdw name=ada_reads
#DW jobdw capacity=80GiB access_mode=private type=scratch
#DW stage_in type=directory source=/global/cscratch1/sd/ada/reads/ destination=$DW_PERSISTENT_STRIPED_ada_reads/reads
export TMPDIR=$DW_JOB_PRIVATE
srun assemble --reads $DW_PERSISTENT_STRIPED_ada_reads/reads
