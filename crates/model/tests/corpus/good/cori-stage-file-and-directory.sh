#!/bin/bash
#SBATCH -p debug -N 2 -C haswell
#SBATCH --time=00:20:00
#SBATCH --job-name=spectra
#SBATCH -n 64
#DW jobdw capacity=200GB access_mode=striped type=scratch
#DW stage_in source=/global/cscratch1/sd/ada/plates destination=$DW_JOB_STRIPED/plates type=directory
#DW stage_in source=/global/cscratch1/sd/ada/select.csv destination=$DW_JOB_STRIPED/select.csv type=file
#DW stage_out source=$DW_JOB_STRIPED/out destination=/global/cscratch1/sd/ada/out type=directory

module load h5py-parallel
mkdir $DW_JOB_STRIPED/out
srun python subset.py $DW_JOB_STRIPED/plates $DW_JOB_STRIPED/select.csv $DW_JOB_STRIPED/out/subset.h5
