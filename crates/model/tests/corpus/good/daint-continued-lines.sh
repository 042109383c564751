#!/bin/bash -l
#SBATCH -N 4
#DW jobdw \
#DW   type=scratch   access_mode=striped,private \
#DW   capacity=412GiB
#DW	stage_in	type=directory\
#DW source=/snx3000/ada/mesh\
#DW destination=$DW_JOB_STRIPED//mesh/./fine/
srun ./cfd
