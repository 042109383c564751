#!/bin/bash -l
#SBATCH --job-name="ior cache"
#SBATCH --constraint=gpu # the flash is there
#DW jobdw type=scratch access_mode=striped(client_cache=yes),private capacity=1TiB
srun ior -o $DW_JOB_STRIPED/file -w -r -t 47008
