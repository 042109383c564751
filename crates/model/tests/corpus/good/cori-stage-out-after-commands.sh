#!/bin/bash
#SBATCH --qos=regular
#SBATCH --nodes=1 --ntasks=4
#DW jobdw type=scratch capacity=20GiB access_mode=striped

cd $DW_JOB_STRIPED
dd if=/dev/urandom of=first.dat bs=1M count=100
md5sum first.dat > /global/cscratch1/sd/ada/first.md5

# The results go home when the job is over.
#DW stage_out type=file source=$DW_JOB_STRIPED/first.dat destination=/global/cscratch1/sd/ada/first.dat
