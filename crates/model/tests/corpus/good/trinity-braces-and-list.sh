#!/bin/bash
#SBATCH --ntasks 96
#DW jobdw access_mode=striped capacity=32GiB type=scratch pool=wlm_pool
#DW stage_in type=list source=/lustre/ttscratch1/ada/restart.list
#DW stage_in type=file source=/lustre/ttscratch1/ada/deck.in destination=${DW_JOB_STRIPED}deck.in
#DW stage_out type=directory source=${DW_JOB_STRIPED}/dumps destination=/lustre/ttscratch1/ada/dumps
srun ./hydro ${DW_JOB_STRIPED}deck.in
