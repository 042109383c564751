#!/bin/bash
#SBATCH -q regular
#SBATCH -N 1
#SBATCH -t 00:10:00
#SBATCH -C haswell
#SBATCH -J stars
#
# Select stars of the Tycho-2 catalogue at random positions, through a burst buffer.
#
# The catalogue (38 MB) is staged in from the parallel file system before the job starts, the result is staged out after
# it has ended. %d is the folder in which the job was submitted: directives do not see shell variables.
#
#DW jobdw capacity=1GiB access_mode=striped type=scratch
#DW stage_in source=/usr/share/astrometry destination=$DW_JOB_STRIPED/catalogue type=directory
#DW stage_in source=%d/examples/star-catalogue/request.txt destination=$DW_JOB_STRIPED/request.txt type=file
#DW stage_out source=$DW_JOB_STRIPED/results destination=%d/results/star-catalogue type=directory

set -e

mkdir -p $DW_JOB_STRIPED/results
ls -l $DW_JOB_STRIPED/catalogue > $DW_JOB_STRIPED/results/catalogue.txt

srun -n 1 /usr/bin/python3 examples/star-catalogue/select_stars.py \
    --catalogue ${DW_JOB_STRIPED}catalogue \
    --request ${DW_JOB_STRIPED}request.txt \
    --output ${DW_JOB_STRIPED}results/stars.h5
