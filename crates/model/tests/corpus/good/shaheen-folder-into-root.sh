#!/bin/bash
#SBATCH --partition=workq
#SBATCH -t 10
#SBATCH -A k0000
#SBATCH --nodes=4 --ntasks=128
#SBATCH --chdir=/project/k0000/ada/weather
#SBATCH -J wrf
#DW jobdw type=scratch access_mode=striped capacity=1472GiB
#DW stage_in type=directory source=/project/k0000/ada/weather/tmp destination=$DW_JOB_STRIPED
#DW stage_out type=directory destination=/project/k0000/ada/weather/stageout source=$DW_JOB_STRIPED/tmp/

cd $DW_JOB_STRIPED
srun ./wrf.exe
