#!/bin/bash
#SBATCH -p regular -N 10 -t 00:10:00
#DW jobdw capacity=1000GB access_mode=striped type=scratch
#DW stage_in source=/scratch/ada/file.dat destination=$DW_JOB_STRIPED/ type=file
#DW stage_out source=$DW_JOB_STRIPED/out.dat destination=/scratch/ada/results/ type=file
srun my.x --infile=$DW_JOB_STRIPED/file.dat
