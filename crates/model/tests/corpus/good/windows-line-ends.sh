#!/bin/bash
#SBATCH -n 2 -J edited_on_windows
#DW jobdw capacity=1GiB access_mode=striped type=scratch
#DW stage_in type=file source=/pfs/a destination=$DW_JOB_STRIPED/a
