#!/bin/bash
IN=/pfs/ada
#DW jobdw type=scratch access_mode=striped capacity=10GiB
#DW stage_in type=directory source=$IN/in destination=$DW_JOB_STRIPED/in
#DW stage_in type=file source=~/a destination=$DW_JOB_STRIPED/${SLURM_JOB_ID}/a
#DW stage_out type=directory source=$DW_JOB_STRIPED/out destination=$SCRATCH/out
#DW stage_out type=directory source=$DW_JOB_STRIPED/out destination=/pfs/$(date)
#DW stage_out type=directory source=$DW_JOB_STRIPED/out destination=out
