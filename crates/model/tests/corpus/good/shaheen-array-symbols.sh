#!/bin/bash
#SBATCH --array=0-31
#SBATCH -J sweep
#DW jobdw capacity=64GiB access_mode=striped type=scratch
#DW stage_in type=file source=%d/in/case%a.nc destination=$DW_JOB_STRIPED/case.nc
#DW stage_out type=directory source=$DW_JOB_STRIPED/out destination=/scratch/%u/%x.%A/%b/%a-%j-100%%
#DW stage_out type=file source=$DW_JOB_STRIPED/log destination=/scratch/%u/\\%j.log
srun ./solve $DW_JOB_STRIPED/case.nc
